//! Keys of the control interface: who may have sandboxes. Of those in the file only a hash is kept.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use belljar::Home;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::super::errors::DaemonError;
use super::super::listen;
use super::time;

/// What every key begins with.
const PREFIX: &str = "e2b_";
/// Random bytes of a key.
const KEY_BYTES: usize = 20;
/// Digits of a hash by which a key is called.
const ID_DIGITS: usize = 12;
/// More than anybody has keys for.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// A key that somebody chose is no shorter.
const MIN_KEY_BYTES: usize = 16;

/// A key that was made here, without the key itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KeyRecord {
    /// What it is called.
    pub id: String,
    /// What its owner calls it.
    pub name: String,
    /// When it was made.
    pub created: String,
    sha256: String,
}

/// Where keys are kept.
#[must_use]
pub fn key_path(home: &Home) -> PathBuf {
    home.daemon().join("e2b-keys")
}

/// Makes a key. It is shown once, and kept nowhere.
///
/// # Errors
/// When there is no randomness, or the file cannot be used.
pub fn new_key(home: &Home, name: &str) -> Result<(KeyRecord, String), DaemonError> {
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| DaemonError::system("make a key")(io::Error::other(error.to_string())))?;
    let key = format!("{PREFIX}{}", hex(&bytes));
    let sha256 = hash(&key);
    let record = KeyRecord {
        id: sha256[..ID_DIGITS].to_owned(),
        name: name.to_owned(),
        created: time::rfc3339_now(),
        sha256,
    };
    let path = key_path(home);
    let _alone = alone(&path)?;
    let mut records = read(&path)?;
    records.push(record.clone());
    write(&path, &records)?;
    Ok((record, key))
}

/// The keys that were made and not revoked.
///
/// # Errors
/// When the file cannot be used.
pub fn list_keys(home: &Home) -> Result<Vec<KeyRecord>, DaemonError> {
    read(&key_path(home))
}

/// Revokes a key; whether there was one of that name. A running daemon notices at once.
///
/// # Errors
/// When the file cannot be used.
pub fn revoke_key(home: &Home, id: &str) -> Result<bool, DaemonError> {
    let path = key_path(home);
    let _alone = alone(&path)?;
    let mut records = read(&path)?;
    let before = records.len();
    records.retain(|record| record.id != id);
    if records.len() < before {
        write(&path, &records)?;
    }
    Ok(records.len() < before)
}

/// Waits until nobody else changes the keys; the system gives the lock back whatever becomes of this
/// process. The file of the keys itself is replaced with each change, so it is another one.
fn alone(path: &Path) -> Result<File, DaemonError> {
    let failed = || DaemonError::system("lock the keys");
    listen::private_directory(path.parent().unwrap_or(Path::new("/")))?;
    let mut options = File::options();
    let lock = options.write(true).create(true).truncate(false).mode(0o600);
    let file = lock.open(path.with_extension("lock")).map_err(failed())?;
    file.lock().map_err(failed())?;
    Ok(file)
}

/// Whose key is which: the daemon's own, and those of the file as it is now.
pub(super) struct Keys {
    given: Vec<String>,
    path: PathBuf,
    read: Option<(Stamp, Vec<String>)>,
    /// The file cannot be read now. It lets nobody in then, and ends nobody's sandboxes either.
    unreadable: bool,
}

type Stamp = Option<(u64, SystemTime)>;

impl Keys {
    /// Takes the daemon's own keys, and looks whether the file can be used.
    pub(super) fn new(given: &[String], path: PathBuf) -> Result<Self, DaemonError> {
        read(&path)?;
        if let Some(short) = given.iter().find(|key| key.len() < MIN_KEY_BYTES) {
            let problem = format!("a key of {} characters could be guessed", short.len());
            return Err(DaemonError::Place { path: "E2B_API_KEY".into(), problem });
        }
        Ok(Self {
            given: given.iter().map(|key| hash(key)).collect(),
            path,
            read: None,
            unreadable: false,
        })
    }

    /// Who has that key, by the name of the key.
    pub(super) fn owner(&mut self, key: &str) -> Option<String> {
        let wanted = hash(key);
        self.refresh();
        // All are compared, so that the time it takes does not tell which one it is.
        // Those that were given come first.
        let known = self.all().take(if self.unreadable { self.given.len() } else { usize::MAX });
        let found = known.fold(false, |found, known| same(known, &wanted) | found);
        found.then(|| wanted[..ID_DIGITS].to_owned())
    }

    /// Whether somebody of that name still has a key.
    pub(super) fn is_known(&mut self, owner: &str) -> bool {
        self.refresh();
        self.unreadable || self.all().any(|known| known.starts_with(owner))
    }

    /// How many there are.
    pub(super) fn count(&mut self) -> usize {
        self.refresh();
        self.all().count()
    }

    fn all(&self) -> impl Iterator<Item = &String> {
        self.given.iter().chain(self.read.iter().flat_map(|(_, hashes)| hashes))
    }

    fn refresh(&mut self) {
        let found = std::fs::metadata(&self.path).ok();
        let stamp = found.and_then(|found| Some((found.ino(), found.modified().ok()?)));
        if !self.unreadable && self.read.as_ref().is_some_and(|(before, _)| *before == stamp) {
            return;
        }
        match read(&self.path) {
            Ok(records) => {
                let hashes = records.into_iter().map(|record| record.sha256).collect();
                (self.read, self.unreadable) = (Some((stamp, hashes)), false);
            }
            Err(error) => {
                if !self.unreadable {
                    tracing::warn!(%error, "the keys cannot be read");
                }
                self.unreadable = true;
            }
        }
    }
}

fn read(path: &Path) -> Result<Vec<KeyRecord>, DaemonError> {
    let failed = |problem: String| DaemonError::Place { path: path.to_owned(), problem };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error.to_string())),
    };
    let found = file.metadata().map_err(|error| failed(error.to_string()))?;
    if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Err(failed(format!("others may change it (mode {:o})", found.mode() & 0o777)));
    }
    let mut text = String::new();
    file.take(MAX_FILE_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| failed(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| failed(format!("it makes no sense: {error}")))
}

fn write(path: &Path, records: &[KeyRecord]) -> Result<(), DaemonError> {
    let failed = || DaemonError::system("write the keys");
    let folder = path.parent().unwrap_or(Path::new("/"));
    listen::private_directory(folder)?;
    // For its owner only, as every temporary file.
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed())?;
    let text = serde_json::to_string_pretty(records).unwrap_or_default();
    file.write_all(text.as_bytes()).map_err(failed())?;
    file.as_file().sync_all().map_err(failed())?;
    file.persist(path).map_err(|error| failed()(error.error))?;
    Ok(())
}

pub(super) fn hash(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether two texts are the same; how long this takes says only how long they are.
pub(super) fn same(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |acc, (a, b)| acc | (a ^ b));
    one.len() == other.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_shown_once_works_and_is_revoked() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let (record, key) = new_key(&home, "ci").unwrap();
        assert!(key.starts_with("e2b_") && key.len() == 44);
        let path = key_path(&home);
        assert!(!std::fs::read_to_string(&path).unwrap().contains(&key));
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let mut keys = Keys::new(&[], path).unwrap();
        assert_eq!(keys.owner(&key), Some(record.id.clone()));
        assert_eq!(keys.owner("e2b_0000000000000000"), None);
        assert!(revoke_key(&home, &record.id).unwrap());
        assert!(!revoke_key(&home, &record.id).unwrap());
        assert_eq!(keys.owner(&key), None);
        assert!(!keys.is_known(&record.id));
    }

    #[test]
    fn keys_that_are_made_at_the_same_time_are_all_there() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let (kept, _) = new_key(&home, "kept").unwrap();
        std::thread::scope(|scope| {
            for number in 0..8 {
                let home = &home;
                scope.spawn(move || {
                    let (gone, _) = new_key(home, "gone").unwrap();
                    new_key(home, &number.to_string()).unwrap();
                    assert!(revoke_key(home, &gone.id).unwrap());
                });
            }
        });
        let listed = list_keys(&home).unwrap();
        let mut names: Vec<&str> = listed.iter().map(|key| &*key.name).collect();
        names.sort_unstable();
        assert_eq!(names, ["0", "1", "2", "3", "4", "5", "6", "7", "kept"]);
        assert_eq!(listed[0].id, kept.id);
    }

    #[test]
    fn a_file_that_cannot_be_read_lets_nobody_in_and_ends_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let (record, key) = new_key(&home, "").unwrap();
        let path = key_path(&home);
        let given = "e2b_0123456789abcdef";
        let mut keys = Keys::new(&[given.to_owned()], path.clone()).unwrap();
        let whole = std::fs::read(&path).unwrap();
        assert!(keys.owner(&key).is_some());
        std::fs::write(&path, "half of").unwrap();
        std::fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(SystemTime::UNIX_EPOCH)
            .unwrap();
        assert_eq!(keys.owner(&key), None);
        assert!(keys.owner(given).is_some() && keys.is_known(&record.id));
        std::fs::write(&path, whole).unwrap();
        assert!(keys.owner(&key).is_some() && !keys.is_known("nobody"));
    }

    #[test]
    fn keys_that_others_may_change_and_short_ones_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        new_key(&home, "").unwrap();
        let path = key_path(&home);
        std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        assert!(list_keys(&home).unwrap_err().to_string().contains("others may change it"));
        let none = dir.path().join("none");
        assert!(Keys::new(&["short".to_owned()], none.clone()).is_err());
        let mut keys = Keys::new(&["e2b_0123456789abcdef".to_owned()], none).unwrap();
        assert!(keys.owner("e2b_0123456789abcdef").is_some() && keys.owner("").is_none());
    }
}
