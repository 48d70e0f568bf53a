//! The token that is kept in the daemon's directory.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use belljar::Home;

use super::super::errors::DaemonError;
use crate::web::token::Token;

/// Longer than any token needs to be.
const MAX_FILE_BYTES: u64 = 4096;

/// Where the token of clients over HTTP is, when nobody has chosen one.
#[must_use]
pub fn token_path(home: &Home) -> PathBuf {
    home.daemon().join("http-token")
}

/// The token of that file; a new one, when there is none.
pub(super) fn kept(path: &Path) -> Result<Token, DaemonError> {
    let failed = |problem: &str| DaemonError::Place {
        path: path.to_owned(),
        problem: format!("{problem}; remove it, and another is made"),
    };
    match File::open(path) {
        Ok(file) => read(file).map_err(|problem| failed(&problem)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make(path).map_err(|problem| failed(&problem))
        }
        Err(error) => Err(failed(&error.to_string())),
    }
}

fn read(file: File) -> Result<Token, String> {
    let found = file.metadata().map_err(|error| error.to_string())?;
    let mode = found.mode() & 0o777;
    if found.uid() != rustix::process::geteuid().as_raw() || mode & 0o077 != 0 {
        return Err(format!("others may know it (mode {mode:o}, user {})", found.uid()));
    }
    let mut text = String::new();
    file.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(|error| error.to_string())?;
    Token::chosen(text.trim()).map_err(|error| error.to_string())
}

fn make(path: &Path) -> Result<Token, String> {
    let token = Token::random().map_err(|error| error.to_string())?;
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| writeln!(file, "{}", token.reveal()))
        .map_err(|error| error.to_string())?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_made_once_for_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("http-token");
        let made = kept(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(kept(&path).unwrap().reveal(), made.reveal());
    }

    #[test]
    fn a_token_that_others_may_know_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("http-token");
        kept(&path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(kept(&path).unwrap_err().to_string().contains("others may know it"));
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "short\n").unwrap();
        assert!(kept(&path).unwrap_err().to_string().contains("remove it"));
    }
}
