//! A file as the variable `context`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use belljar::SandboxError;
use belljar::core::units::format_bytes;
use serde_json::Value;

/// The largest context: it travels into the sandbox in one message.
const MAX_CONTEXT_BYTES: u64 = 64 * 1024 * 1024;

/// The text of a file, or its value if it is JSON by its name.
pub(crate) fn read(path: &Path) -> Result<Value, SandboxError> {
    let unusable = |problem: String, hint: &str| SandboxError::Input {
        what: "the context in".to_owned(),
        path: path.to_owned(),
        problem,
        hint: Some(hint.to_owned()),
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_CONTEXT_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| unusable(error.to_string(), "check the file's path and permissions"))?;
    if bytes.len() as u64 > MAX_CONTEXT_BYTES {
        return Err(unusable(
            format!("it is larger than {}", format_bytes(MAX_CONTEXT_BYTES)),
            "give its directory as --data and read it there, in /data",
        ));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        unusable(format!("it is not UTF-8 text (byte {place})"), "give its directory as --data")
    })?;
    if path.extension().is_some_and(|ending| ending == "json") {
        return serde_json::from_str(&text).map_err(|error| {
            unusable(format!("it is not JSON: {error}"), "name it differently to have it as text")
        });
    }
    Ok(Value::String(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_text_and_json_is_json() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, content).unwrap();
            read(&path)
                .map_err(|error| error.to_string().replace(&*dir.path().to_string_lossy(), "DIR"))
        };
        assert_eq!(file("a.txt", b"[1]"), Ok(Value::String("[1]".into())));
        assert_eq!(file("a.json", b"[1]"), Ok(serde_json::json!([1])));
        insta::assert_snapshot!(
            file("b.json", b"[1").unwrap_err(),
            @"cannot read the context in DIR/b.json: it is not JSON: EOF while parsing a list at line 1 column 2; nothing was run"
        );
        insta::assert_snapshot!(
            file("b.txt", b"caf\xe9").unwrap_err(),
            @"cannot read the context in DIR/b.txt: it is not UTF-8 text (byte 3); nothing was run"
        );
        assert!(read(dir.path()).is_err());
    }
}
