//! Policies from files.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use belljar_core::units::format_bytes;
use belljar_core::{ExecutionPolicy, PolicyLayer, Preset, SandboxError, limits};

/// The policy a file describes, over the preset `strict`. A file that does not exist gives the
/// defaults.
///
/// # Errors
/// When the file exists but cannot be read or is not a valid policy.
pub fn load_policy(path: impl AsRef<Path>) -> Result<ExecutionPolicy, SandboxError> {
    let layer = read_layer(path.as_ref())?;
    Ok(ExecutionPolicy::build(Preset::Strict, layer)?)
}

/// What a policy file says, or `None` when there is no such file.
///
/// # Errors
/// When the file exists but cannot be read or is not a valid policy.
pub fn read_layer(path: &Path) -> Result<Option<PolicyLayer>, SandboxError> {
    let Some(text) = read_text(path)? else { return Ok(None) };
    Ok(Some(PolicyLayer::from_toml(&text, &path.display().to_string())?))
}

fn read_text(path: &Path) -> Result<Option<String>, SandboxError> {
    let unreadable = |problem: String, hint: &str| SandboxError::Input {
        what: "policy file".to_owned(),
        path: path.to_owned(),
        problem,
        hint: Some(hint.to_owned()),
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(unreadable(error.to_string(), "check the file's path and permissions"));
        }
    };
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(unreadable(
            "it is a directory".to_owned(),
            "name the file itself, for example policy.toml in it",
        ));
    }
    let mut bytes = Vec::new();
    file.take(limits::MAX_POLICY_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(error.to_string(), "check the file's path and permissions"))?;
    if bytes.len() as u64 > limits::MAX_POLICY_FILE_BYTES {
        return Err(unreadable(
            format!("it is larger than {}", format_bytes(limits::MAX_POLICY_FILE_BYTES)),
            "a policy is a short TOML file; is this the right one?",
        ));
    }
    String::from_utf8(bytes).map(Some).map_err(|error| {
        unreadable(
            format!("it is not UTF-8 text (byte {})", error.utf8_error().valid_up_to()),
            "save the file as UTF-8",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What loading a file with this content says, with the directory's name taken out.
    fn complaint(content: &[u8]) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policy.toml");
        std::fs::write(&path, content).unwrap();
        let error = load_policy(&path).unwrap_err();
        format!("{error}\nhint: {}", error.hint().unwrap_or_default())
            .replace(&format!("{}/", dir.path().display()), "")
    }

    #[test]
    fn a_missing_file_gives_the_defaults() {
        let dir = tempfile::tempdir().unwrap();
        let policy = load_policy(dir.path().join("nothing.toml")).unwrap();
        assert_eq!(policy, ExecutionPolicy::default());
    }

    #[test]
    fn a_file_changes_what_it_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policy.toml");
        std::fs::write(&path, "fuel_budget = 1000000000\n").unwrap();
        assert_eq!(load_policy(&path).unwrap().fuel_budget, 1_000_000_000);
    }

    #[test]
    fn a_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = load_policy(dir.path()).unwrap_err().to_string();
        assert!(error.ends_with("it is a directory; nothing was run"), "{error}");
    }

    #[test]
    fn text_that_is_not_utf8_is_refused() {
        insta::assert_snapshot!(complaint(b"fuel_budget = 1 # caf\xe9"), @r"
        cannot read policy file policy.toml: it is not UTF-8 text (byte 21); nothing was run
        hint: save the file as UTF-8
        ");
    }

    #[test]
    fn a_wrong_value_is_refused_with_file_line_and_field() {
        insta::assert_snapshot!(complaint(b"\nmemory_bytes = -1000"), @r"
        the policy is not valid; nothing was run
          memory_bytes: must be greater than 0, but is -1000 (policy.toml, line 2)
        hint: `belljar policy schema` describes every field
        ");
    }

    #[test]
    fn a_huge_file_is_refused() {
        insta::assert_snapshot!(complaint(&vec![b'#'; 2 << 20]), @r"
        cannot read policy file policy.toml: it is larger than 1 MiB; nothing was run
        hint: a policy is a short TOML file; is this the right one?
        ");
    }
}
