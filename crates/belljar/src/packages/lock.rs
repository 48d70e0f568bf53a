//! The record of what is installed.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use belljar_core::SandboxError;
use serde::{Deserialize, Serialize};

use super::cache_error;
use super::wheel::normalized;

/// The format of the lock file.
const VERSION: u32 = 1;

/// A lock file beyond this is not one of ours.
const MAX_LOCK_BYTES: u64 = 16 * 1024 * 1024;

/// One installed package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// The name, in the form package indexes use.
    pub name: String,
    /// The version.
    pub version: String,
    /// The wheel's file name.
    pub wheel: String,
    /// The wheel's SHA-256, in hexadecimal.
    pub sha256: String,
    /// Whether somebody asked for it, or another package needs it.
    pub requested: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LockFile {
    version: u32,
    pub(super) generation: Option<String>,
    pub(super) packages: Vec<Package>,
}

impl Default for LockFile {
    fn default() -> Self {
        Self { version: VERSION, generation: None, packages: Vec::new() }
    }
}

impl LockFile {
    /// The lock file, or an empty one when there is none.
    pub(super) fn read(path: &Path) -> Result<Self, SandboxError> {
        let damaged = |problem: String| {
            let hint = "remove this file and add the packages again".to_owned();
            cache_error(path, problem, Some(hint))
        };
        let mut text = String::new();
        match File::open(path) {
            Ok(file) => file
                .take(MAX_LOCK_BYTES)
                .read_to_string(&mut text)
                .map_err(|error| damaged(error.to_string()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(damaged(error.to_string())),
        };
        let lock: Self = serde_json::from_str(&text)
            .map_err(|error| damaged(format!("the lock file is damaged: {error}")))?;
        if lock.version != VERSION {
            return Err(damaged(format!(
                "the lock file has version {}, this Belljar knows version {VERSION}",
                lock.version
            )));
        }
        let is_hash =
            |hash: &String| hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit());
        if !lock.packages.iter().all(|package| is_hash(&package.sha256)) {
            return Err(damaged("the lock file holds a hash that is none".to_owned()));
        }
        let plain = |name: &String| !name.is_empty() && !name.contains(['/', '\\']) && name != "..";
        let names_are_plain = lock
            .generation
            .iter()
            .chain(lock.packages.iter().map(|package| &package.wheel))
            .all(plain);
        if !names_are_plain {
            return Err(damaged("the lock file names files outside its directory".to_owned()));
        }
        Ok(lock)
    }

    /// Replaces the lock file in one step.
    pub(super) fn write(&self, path: &Path) -> Result<(), SandboxError> {
        let dir = path.parent().unwrap_or(Path::new("."));
        let write = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(dir)?;
            serde_json::to_writer_pretty(&mut file, self)?;
            file.write_all(b"\n")?;
            file.as_file().sync_all()?;
            file.persist(path)?;
            Ok(())
        };
        write().map_err(|error| cache_error(path, error.to_string(), None))
    }

    /// Adds a package in place of one of the same name. A package somebody asked for stays asked
    /// for.
    pub(super) fn put(&mut self, mut package: Package) {
        if let Some(old) = self.take(&package.name) {
            package.requested |= old.requested;
        }
        self.packages.push(package);
        self.packages.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// Takes a package out.
    pub(super) fn take(&mut self, name: &str) -> Option<Package> {
        let name = normalized(name);
        let index = self.packages.iter().position(|package| package.name == name)?;
        Some(self.packages.remove(index))
    }
}
