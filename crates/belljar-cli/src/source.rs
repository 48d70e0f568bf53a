//! Reading the code that was asked for.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use belljar::SandboxError;
use belljar::core::limits::MAX_SOURCE_BYTES;
use belljar::core::units::format_bytes;

use crate::args::SourceArgs;

/// The code, from the argument, a file or standard input.
pub(crate) fn read(args: &SourceArgs) -> Result<String, SandboxError> {
    match (&args.code, &args.file) {
        (Some(code), _) => Ok(code.clone()),
        (None, Some(path)) if path.as_path() == Path::new("-") => {
            decode("standard input", path, read_capped(io::stdin().lock()))
        }
        (None, Some(path)) => decode("the code in", path, open(path).and_then(read_capped)),
        // The parser asks for one of the two.
        (None, None) => Ok(String::new()),
    }
}

fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
    }
    Ok(file)
}

/// One byte more than is allowed, so that too much is noticed without reading all of it.
fn read_capped(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_SOURCE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn decode(what: &str, path: &Path, bytes: io::Result<Vec<u8>>) -> Result<String, SandboxError> {
    let unreadable = |problem: String, hint: Option<String>| SandboxError::Input {
        what: what.to_owned(),
        path: if path == Path::new("-") { PathBuf::from("(-)") } else { path.to_owned() },
        problem,
        hint,
    };
    let bytes = bytes.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => unreadable(
            "it does not exist".to_owned(),
            Some("to run code given as text, use -c CODE".to_owned()),
        ),
        io::ErrorKind::IsADirectory => unreadable(
            "it is a directory".to_owned(),
            Some("name a file in it; the directory itself can be the --workspace".to_owned()),
        ),
        _ => unreadable(error.to_string(), None),
    })?;
    if bytes.len() > MAX_SOURCE_BYTES {
        return Err(unreadable(
            format!("it is larger than {}", format_bytes(MAX_SOURCE_BYTES as u64)),
            Some("put large data into a file in the workspace and read it there".to_owned()),
        ));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        unreadable(
            format!("it is not UTF-8 text (byte {at} is 0x{:02x})", error.as_bytes()[at]),
            Some("save the file as UTF-8".to_owned()),
        )
    })?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(bytes: io::Result<Vec<u8>>) -> String {
        decode("the code in", Path::new("x.py"), bytes).unwrap_err().to_string()
    }

    #[test]
    fn code_that_is_not_text_is_refused_with_its_place() {
        insta::assert_snapshot!(
            complaint(Ok(b"print('caf\xe9')".to_vec())),
            @"cannot read the code in x.py: it is not UTF-8 text (byte 10 is 0xe9); nothing was run"
        );
    }

    #[test]
    fn code_that_is_too_large_is_refused() {
        insta::assert_snapshot!(
            complaint(read_capped(io::repeat(b'#'))),
            @"cannot read the code in x.py: it is larger than 16 MiB; nothing was run"
        );
    }

    #[test]
    fn a_byte_order_mark_is_not_part_of_the_code() {
        let code = decode("the code in", Path::new("x.py"), Ok(b"\xef\xbb\xbfx = 1".to_vec()));
        assert_eq!(code.unwrap(), "x = 1");
    }
}
