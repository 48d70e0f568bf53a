//! Compiled guests on disk.
//!
//! Compiled code is trusted code: whoever can write it runs as us. So the directory must belong to
//! this user and be closed to others, entries are replaced by renaming only, and an entry is used
//! only when it is what was written: its BLAKE3 is checked whenever the file's identity and change
//! time are not those recorded at the last check.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::error::EngineError;

/// A directory of compiled guests.
pub struct Cache {
    dir: PathBuf,
}

/// The parts of an entry, open and checked.
pub struct Entry {
    pub code: File,
    pub image: File,
}

/// What an entry is made of when it is new.
pub struct Parts {
    pub code: Vec<u8>,
    pub image: Vec<u8>,
}

/// The last check of an entry.
#[derive(Serialize, Deserialize, PartialEq, Eq)]
struct Stamp {
    code: Seal,
    image: Seal,
}

/// A file as it was when its contents were known to be right.
#[derive(Serialize, Deserialize, PartialEq, Eq)]
struct Seal {
    blake3: String,
    bytes: u64,
    inode: u64,
    /// Cannot be set by anyone; changes with every write, rename and change of mode.
    changed: (i64, i64),
}

const CODE: &str = "cwasm";
const IMAGE: &str = "img";
const STAMP: &str = "stamp";
/// Held by whoever makes the entry. Stays, so that nobody holds one that others cannot find.
const LOCK: &str = "lock";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// What has not been used for so long goes when another entry of its name comes: every version of
/// Belljar has entries of its own, of hundreds of megabytes. Two versions may be in use together.
const KEPT_UNUSED: Duration = DAY.saturating_mul(14);

impl Cache {
    /// Opens the directory, making it if need be. Refuses one that others could write.
    pub fn open(dir: &Path) -> Result<Cache, EngineError> {
        let problem = |problem: String| EngineError::Cache { path: dir.to_owned(), problem };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|error| problem(error.to_string()))?;
        let metadata =
            std::fs::symlink_metadata(dir).map_err(|error| problem(error.to_string()))?;
        if !metadata.is_dir() {
            return Err(problem("it is not a directory".to_owned()));
        }
        if let Some(reason) = others_can_write(&metadata) {
            return Err(problem(reason));
        }
        Ok(Cache { dir: dir.to_owned() })
    }

    /// The entry `key`, made by `make` if it is missing or damaged. Only one process at a time
    /// makes it; the others wait and find it. Nobody waits for another entry.
    pub fn get(
        &self,
        key: &str,
        make: impl FnOnce() -> Result<Parts, EngineError>,
    ) -> Result<Entry, EngineError> {
        if let Some(entry) = self.find(key) {
            return Ok(entry);
        }
        let lock = self.create(&self.path(key, LOCK))?;
        lock.lock()?;
        match self.find(key) {
            Some(entry) => Ok(entry),
            None => {
                self.write(key, &make()?)?;
                self.remove_unused_beside(key);
                self.find(key).ok_or_else(|| self.unusable("an entry cannot be read back"))
            }
        }
    }

    /// The entry `key`, if it is there and sound.
    pub fn find(&self, key: &str) -> Option<Entry> {
        let stamp = self.open_entry(key, STAMP)?;
        if age(&stamp).is_some_and(|age| age > DAY) {
            // Who may only read the cache does not remove anything either.
            let _ = stamp.set_modified(SystemTime::now());
        }
        match self.check(key, stamp) {
            Ok(entry) => Some(entry),
            Err(reason) => {
                tracing::warn!(
                    key,
                    reason,
                    "a compiled guest in the cache is damaged and will be made again"
                );
                None
            }
        }
    }

    fn check(&self, key: &str, stamp_file: File) -> Result<Entry, String> {
        let mut text = String::new();
        stamp_file.take(4096).read_to_string(&mut text).map_err(|error| error.to_string())?;
        let stamp: Stamp =
            serde_json::from_str(&text).map_err(|_| "its stamp is unreadable".to_owned())?;
        let mut code = self.open_entry(key, CODE).ok_or("its code is missing")?;
        let mut image = self.open_entry(key, IMAGE).ok_or("its image is missing")?;
        let (code_seal, image_seal) =
            (stamp.code.renewed(&mut code)?, stamp.image.renewed(&mut image)?);
        let renewed = Stamp { code: code_seal, image: image_seal };
        if renewed != stamp {
            self.write_stamp(key, &renewed).map_err(|error| error.to_string())?;
        }
        Ok(Entry { code, image })
    }

    fn write(&self, key: &str, parts: &Parts) -> Result<(), EngineError> {
        let code = self.put(key, CODE, &parts.code)?;
        let image = self.put(key, IMAGE, &parts.image)?;
        self.write_stamp(
            key,
            &Stamp { code: Seal::of(&code, &parts.code)?, image: Seal::of(&image, &parts.image)? },
        )
    }

    fn write_stamp(&self, key: &str, stamp: &Stamp) -> Result<(), EngineError> {
        let text = serde_json::to_vec(stamp).map_err(|error| self.unusable(&error.to_string()))?;
        self.put(key, STAMP, &text).map(|_| ())
    }

    /// Writes a whole file or nothing.
    fn put(&self, key: &str, part: &str, contents: &[u8]) -> Result<File, EngineError> {
        let failed = |error: std::io::Error| self.unusable(&error.to_string());
        let mut file =
            tempfile::Builder::new().prefix(".new-").tempfile_in(&self.dir).map_err(failed)?;
        file.write_all(contents).map_err(failed)?;
        // The stamp vouches for these contents; after a power cut they must not be others.
        file.as_file().sync_all().map_err(failed)?;
        file.persist(self.path(key, part)).map_err(|error| failed(error.error))
    }

    /// Removes other entries of the same name that nobody uses. Whoever has one open keeps it.
    fn remove_unused_beside(&self, key: &str) {
        let name = |key: &str| key.rsplit_once('-').map(|(name, _)| name.to_owned());
        for file in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let file = file.file_name();
            let Some(other) = file.to_str().and_then(|file| file.strip_suffix(".stamp")) else {
                continue;
            };
            let used = self.open_entry(other, STAMP).and_then(|stamp| age(&stamp));
            let unused = used.is_some_and(|age| age > KEPT_UNUSED);
            if other == key || name(other) != name(key) || !unused {
                continue;
            }
            let lock = self.create(&self.path(other, LOCK));
            if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
                for part in [STAMP, CODE, IMAGE] {
                    let _ = std::fs::remove_file(self.path(other, part));
                }
            }
        }
    }

    /// Opens a file of an entry if it is there and only this user can have written it.
    fn open_entry(&self, key: &str, part: &str) -> Option<File> {
        let flags = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).ok()?;
        let file =
            OpenOptions::new().read(true).custom_flags(flags).open(self.path(key, part)).ok()?;
        let metadata = file.metadata().ok()?;
        (metadata.is_file() && others_can_write(&metadata).is_none()).then_some(file)
    }

    fn create(&self, path: &Path) -> Result<File, EngineError> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(|error| self.unusable(&error.to_string()))
    }

    fn path(&self, key: &str, part: &str) -> PathBuf {
        self.dir.join(format!("{key}.{part}"))
    }

    fn unusable(&self, problem: &str) -> EngineError {
        EngineError::Cache { path: self.dir.clone(), problem: problem.to_owned() }
    }
}

impl Seal {
    fn of(file: &File, contents: &[u8]) -> std::io::Result<Seal> {
        Ok(Seal::new(blake3::hash(contents).to_hex().to_string(), &file.metadata()?))
    }

    fn new(blake3: String, metadata: &Metadata) -> Seal {
        Seal {
            blake3,
            bytes: metadata.len(),
            inode: metadata.ino(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// This seal if the file is untouched, a new one if its contents are still the same.
    fn renewed(&self, file: &mut File) -> Result<Seal, String> {
        let metadata = file.metadata().map_err(|error| error.to_string())?;
        let unchecked = Seal::new(self.blake3.clone(), &metadata);
        if unchecked == *self {
            return Ok(unchecked);
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(&mut *file).map_err(|error| error.to_string())?;
        if hasher.finalize().to_hex().as_str() == self.blake3 {
            Ok(unchecked)
        } else {
            Err("its contents have changed".to_owned())
        }
    }
}

/// The name of an entry: what it is, compiled by this engine with these settings, from these contents.
pub fn key(name: &str, engine: &wasmtime::Engine, contents: &[&[u8]]) -> String {
    /// Feeds what wasmtime wants hashed into BLAKE3.
    struct Compatibility(blake3::Hasher);
    impl Hasher for Compatibility {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut hasher = Compatibility(blake3::Hasher::new());
    engine.precompile_compatibility_hash().hash(&mut hasher);
    for part in contents {
        hasher.0.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    format!("{name}-{}", &hasher.0.finalize().to_hex()[..32])
}

/// How long ago it was written or marked as used.
fn age(stamp: &File) -> Option<Duration> {
    stamp.metadata().ok()?.modified().ok()?.elapsed().ok()
}

/// Why somebody else could have written this, if so.
fn others_can_write(metadata: &Metadata) -> Option<String> {
    let (owner, me) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != me {
        return Some(format!("it belongs to user {owner}, not to {me}"));
    }
    let mode = metadata.permissions().mode() & 0o777;
    (mode & 0o022 != 0).then(|| format!("others may write to it (mode {mode:o})"))
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
