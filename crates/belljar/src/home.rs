//! Where Belljar keeps its own files: `$BELLJAR_HOME`, or `.belljar` in the user's home directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use belljar_core::{RuntimeType, SandboxError};

/// The variable that moves Belljar's directory.
pub const HOME_VARIABLE: &str = "BELLJAR_HOME";

/// Belljar's own directory. It need not exist; nothing is created by asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
    /// Where compiled guests are, if not below the root.
    cache: Option<PathBuf>,
}

impl Home {
    /// The directory as the process's environment names it.
    ///
    /// # Errors
    /// When `BELLJAR_HOME` is not an absolute path, or is unset and there is no home directory.
    pub fn locate() -> Result<Self, SandboxError> {
        Self::from_values(std::env::var_os(HOME_VARIABLE), std::env::home_dir())
    }

    /// A directory given by the caller.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), cache: None }
    }

    /// The same with compiled guests in a directory of their own, which several homes may share.
    #[must_use]
    pub fn with_cache(self, cache: impl Into<PathBuf>) -> Self {
        Self { cache: Some(cache.into()), ..self }
    }

    fn from_values(
        variable: Option<OsString>,
        user_home: Option<PathBuf>,
    ) -> Result<Self, SandboxError> {
        let unusable = |path: PathBuf, problem: &str| SandboxError::Cache {
            what: "Belljar's directory".to_owned(),
            path,
            problem: problem.to_owned(),
            hint: Some(format!("set {HOME_VARIABLE} to an absolute path")),
        };
        match variable.filter(|value| !value.is_empty()).map(PathBuf::from) {
            Some(path) if path.is_absolute() => Ok(Self::at(path)),
            Some(path) => Err(unusable(path, "it is not an absolute path")),
            None => match user_home.filter(|path| path.is_absolute()) {
                Some(home) => Ok(Self::at(home.join(".belljar"))),
                None => Err(unusable(PathBuf::from("~/.belljar"), "there is no home directory")),
            },
        }
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where added Python packages live.
    #[must_use]
    pub fn packages(&self) -> PathBuf {
        self.root.join("packages")
    }

    /// Where compiled guests are kept.
    #[must_use]
    pub fn cache(&self) -> PathBuf {
        self.cache.clone().unwrap_or_else(|| self.root.join("cache"))
    }

    /// Where the daemon keeps its workers' directories and its log.
    #[must_use]
    pub fn daemon(&self) -> PathBuf {
        self.root.join("daemon")
    }

    /// Where sessions are kept.
    #[must_use]
    pub fn sessions(&self) -> PathBuf {
        self.root.join("sessions")
    }

    /// Belljar's configuration file.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.root.join("config.toml")
    }

    /// What was typed into the shell of a language.
    #[must_use]
    pub fn history(&self, language: RuntimeType) -> PathBuf {
        self.root.join(format!("history-{language}"))
    }

    /// The Python guest that is used instead of the embedded one when it exists.
    #[must_use]
    pub fn python_wasm(&self) -> PathBuf {
        self.root.join("bin").join("python.wasm")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(variable: Option<&str>, home: Option<&str>) -> Result<PathBuf, String> {
        Home::from_values(variable.map(OsString::from), home.map(PathBuf::from))
            .map(|home| home.root)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_variable_wins_over_the_home_directory() {
        assert_eq!(located(Some("/x"), Some("/home/u")), Ok("/x".into()));
        assert_eq!(located(None, Some("/home/u")), Ok("/home/u/.belljar".into()));
        assert_eq!(located(Some(""), Some("/home/u")), Ok("/home/u/.belljar".into()));
    }

    #[test]
    fn a_relative_or_missing_directory_is_refused() {
        insta::assert_snapshot!(
            located(Some("here"), Some("/home/u")).unwrap_err(),
            @"cannot use Belljar's directory at here: it is not an absolute path; nothing was changed"
        );
        assert!(located(None, None).is_err());
    }
}
