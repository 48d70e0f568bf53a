//! What Belljar's configuration file says about where code runs: the section `[sandbox]`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use belljar_core::{Backend, SandboxError};
use serde::Deserialize;

use crate::home::Home;

/// A configuration file beyond this is a mistake.
const MAX_CONFIG_BYTES: u64 = 1024 * 1024;

/// What holds unless an argument or a variable says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    /// The backend.
    pub backend: Option<Backend>,
    /// The Python of the native backend.
    pub python: Option<PathBuf>,
    /// Where the pyodide backend loads Pyodide from.
    #[serde(default)]
    pub index_url: Places,
}

/// One place, or several that are tried in order.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Places {
    /// The only one.
    One(String),
    /// The first is tried first.
    Several(Vec<String>),
}

impl Default for Places {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl From<Places> for Vec<String> {
    fn from(places: Places) -> Self {
        match places {
            Places::One(place) => vec![place],
            Places::Several(places) => places,
        }
    }
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    sandbox: Defaults,
}

impl Defaults {
    /// Those of the configuration file, if there is one.
    ///
    /// # Errors
    /// When it cannot be read or is wrong.
    pub fn read(home: &Home) -> Result<Self, SandboxError> {
        Self::from_file(&home.config_file())
    }

    fn from_file(path: &Path) -> Result<Self, SandboxError> {
        let wrong = |problem: String| SandboxError::Input {
            what: "the configuration file".to_owned(),
            path: path.to_owned(),
            problem,
            hint: Some("for example: [sandbox] backend = \"native\"".to_owned()),
        };
        let text = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(wrong(error.to_string())),
            Ok(found) if found.len() > MAX_CONFIG_BYTES => {
                return Err(wrong("it is larger than 1 MiB".to_owned()));
            }
            Ok(_) => fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?,
        };
        let file: File =
            toml::from_str(&text).map_err(|error| wrong(error.message().to_owned()))?;
        Ok(file.sandbox)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Defaults, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        fs::write(&path, text).unwrap();
        Defaults::from_file(&path)
            .map_err(|error| error.to_string().replace(&path.display().to_string(), "FILE"))
    }

    #[test]
    fn a_place_may_stand_alone_or_in_a_list() {
        let one = read("[sandbox]\nbackend = \"local\"\nindex_url = \"a\"").unwrap();
        assert_eq!(one.backend, Some(Backend::Native));
        assert_eq!(Vec::from(one.index_url), ["a"]);
        let two = read("[llm]\ncommand = \"x\"\n[sandbox]\nindex_url = [\"a\", \"b\"]").unwrap();
        assert_eq!(Vec::from(two.index_url), ["a", "b"]);
        assert_eq!(read(""), Ok(Defaults::default()));
    }

    #[test]
    fn nonsense_is_refused() {
        insta::assert_snapshot!(
            read("[sandbox]\nbackend = \"vm\"").unwrap_err(),
            @"cannot read the configuration file FILE: unknown variant `vm`, expected one of `wasm`, `local`, `native`, `pyodide`, `docker`, `e2b`, `daemon`, `auto`; nothing was run"
        );
        insta::assert_snapshot!(
            read("[sandbox]\nbakend = 1").unwrap_err(),
            @"cannot read the configuration file FILE: unknown field `bakend`, expected one of `backend`, `python`, `index_url`; nothing was run"
        );
    }
}
