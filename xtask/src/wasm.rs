//! Just enough of the WebAssembly binary format to move a module's data into its image.

use anyhow::{Context, bail};

const HEADER_BYTES: usize = 8;
const SECTION_MEMORY: u8 = 5;
const SECTION_DATA: u8 = 11;
const SECTION_DATA_COUNT: u8 = 12;
const WASM_PAGE: usize = 65536;

/// The module without data segments, its memory beginning with the size of the image.
///
/// Only right for modules that do not touch their segments by name (`memory.init`): wasmtime
/// refuses such a module when it is compiled, since the segments it names are gone.
pub fn without_data(module: &[u8], image_bytes: usize) -> anyhow::Result<Vec<u8>> {
    let mut stripped = module.get(..HEADER_BYTES).context("not a WebAssembly module")?.to_vec();
    let mut rest = &module[HEADER_BYTES..];
    while let Some((&id, after)) = rest.split_first() {
        let (size, after) = read_number(after)?;
        let (section, after) = after.split_at_checked(size).context("a section is cut short")?;
        match id {
            SECTION_DATA | SECTION_DATA_COUNT => {}
            SECTION_MEMORY => {
                write_section(&mut stripped, id, &memory_section(section, image_bytes)?);
            }
            _ => write_section(&mut stripped, id, section),
        }
        rest = after;
    }
    Ok(stripped)
}

fn memory_section(section: &[u8], image_bytes: usize) -> anyhow::Result<Vec<u8>> {
    let [1, flags @ (0 | 1), limits @ ..] = section else {
        bail!("expected one plain 32-bit memory")
    };
    if !image_bytes.is_multiple_of(WASM_PAGE) {
        bail!("the image is not a whole number of WebAssembly pages");
    }
    let (_, maximum) = read_number(limits)?;
    let mut new = vec![1, *flags];
    write_number(&mut new, image_bytes / WASM_PAGE);
    new.extend(maximum);
    Ok(new)
}

fn write_section(module: &mut Vec<u8>, id: u8, contents: &[u8]) {
    module.push(id);
    write_number(module, contents.len());
    module.extend(contents);
}

/// Reads an unsigned LEB128 number.
fn read_number(bytes: &[u8]) -> anyhow::Result<(usize, &[u8])> {
    let mut number = 0usize;
    for (index, byte) in bytes.iter().enumerate().take(5) {
        number |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((number, &bytes[index + 1..]));
        }
    }
    bail!("a number is cut short or too long")
}

fn write_number(bytes: &mut Vec<u8>, mut number: usize) {
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or(0);
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return;
        }
        bytes.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_goes_and_memory_grows() {
        let module =
            [&b"\0asm\x01\0\0\0"[..], &[5, 3, 1, 0, 1], &[12, 1, 1], &[10, 1, 0], &[11, 1, 0]]
                .concat();
        let expected = [&b"\0asm\x01\0\0\0"[..], &[5, 4, 1, 0, 0x80, 0x01], &[10, 1, 0]].concat();
        assert_eq!(without_data(&module, 128 * WASM_PAGE).unwrap(), expected);
    }

    #[test]
    fn garbage_is_refused() {
        assert!(without_data(b"hello", WASM_PAGE).is_err());
        assert!(without_data(b"\0asm\x01\0\0\0\x05\xff", WASM_PAGE).is_err());
    }
}
