//! The directory of artifacts. Every step goes through a directory that is open, so that nothing
//! can be led elsewhere by a link.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use belljar_core::limits::{MAX_ARTIFACT_BYTES, MAX_ARTIFACTS_LOOKED_AT};
use belljar_core::units::format_bytes;
use belljar_core::{ExecutionPolicy, SandboxError, SandboxResult};
use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt, MetadataExt, OpenOptions, OpenOptionsExt};

use super::name::{self, Name};
use super::record::{Artifact, Summary};
use super::redact::Redactor;

/// The directory below the one that is configured.
const EXECUTIONS: &str = "executions";

/// Files that are being written. No artifact's name begins with a dot.
const NEW_PREFIX: &str = ".new-";

/// A file that is still being written after this time was left behind.
const ABANDONED: Duration = Duration::from_secs(3600);

/// How much is kept, for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Older artifacts are removed.
    pub max_age: Duration,
    /// The oldest are removed when all together are larger.
    pub max_bytes: u64,
}

/// The artifacts in a directory. Nothing is created by asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactStore {
    dir: PathBuf,
}

/// A file in a list. One that cannot be read is listed too, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The artifact's name, or the file's where it is none.
    pub id: String,
    /// The file's size.
    pub bytes: u64,
    /// What is in it, or why that cannot be told.
    pub summary: Result<Summary, String>,
}

/// What was removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pruned {
    /// The artifacts that are gone, oldest first.
    pub removed: Vec<String>,
    /// What they took.
    pub bytes: u64,
}

impl ArtifactStore {
    /// The artifacts below a directory, in `executions`.
    #[must_use]
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// The same where a relative directory is one below `root`.
    #[must_use]
    pub fn below(self, root: &Path) -> Self {
        Self { dir: root.join(self.dir) }
    }

    /// Where the files are.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir.join(EXECUTIONS)
    }

    /// Keeps an execution, and then no more than is to be kept. Gives the artifact's name.
    ///
    /// # Errors
    /// When the directory cannot be made or written, or is not ours alone to write.
    pub fn store(
        &self,
        code: &str,
        policy: &ExecutionPolicy,
        result: &SandboxResult,
        redactor: &Redactor,
        retention: Retention,
    ) -> Result<String, SandboxError> {
        let dir = self.create()?;
        let now = SystemTime::now();
        let name = Name::new(now, code);
        let artifact = Artifact::new(code, policy, result, redactor, now);
        let json = artifact.to_json().map_err(|problem| self.unusable(problem))?;
        write(&dir, &name, &json).map_err(|error| self.failed(&error))?;
        // The artifact is there; what is too much now can be too much until the next one.
        if let Ok(found) = self.scan(&dir, MAX_ARTIFACTS_LOOKED_AT) {
            let _ = remove(&dir, &outlived(found, retention, &name));
            remove_abandoned(&dir, now);
        }
        Ok(name.as_str().to_owned())
    }

    /// Every file in the directory, oldest first.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, SandboxError> {
        let Some(dir) = self.open()? else { return Ok(Vec::new()) };
        let mut listed = Vec::new();
        for entry in dir.entries().map_err(|error| self.failed(&error))? {
            let entry = entry.map_err(|error| self.failed(&error))?;
            let file = entry.file_name().to_string_lossy().into_owned();
            if file.starts_with(NEW_PREFIX) {
                continue;
            }
            let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
            let (id, summary) = match Name::of_file(&file) {
                Some(name) => {
                    let artifact = read(&dir, &name);
                    (name.as_str().to_owned(), artifact.map(|artifact| artifact.summary()))
                }
                None => (file, Err("it is no artifact's file".to_owned())),
            };
            listed.push(Listed { id, bytes, summary });
        }
        listed.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(listed)
    }

    /// The artifact whose name begins like this, and its whole name.
    ///
    /// # Errors
    /// When there is none, or more than one, or it cannot be read.
    pub fn read(&self, prefix: &str) -> Result<(String, Artifact), SandboxError> {
        let prefix = name::check_prefix(prefix)?;
        let refused = |problem: String, hint: &str| SandboxError::Artifact {
            id: prefix.to_owned(),
            problem,
            hint: Some(hint.to_owned()),
        };
        let dir = self.open()?;
        let found = dir.as_ref().map(|dir| self.scan(dir, usize::MAX)).transpose()?;
        let mut names =
            found.into_iter().flatten().filter(|file| file.name.as_str().starts_with(prefix));
        match (dir, names.next(), names.count()) {
            (Some(dir), Some(file), 0) => match read(&dir, &file.name) {
                Ok(artifact) => Ok((file.name.as_str().to_owned(), artifact)),
                Err(problem) => Err(refused(problem, "`belljar artifacts prune` removes old ones")),
            },
            (_, Some(_), more) => Err(refused(
                format!("{} artifacts begin like that", more + 1),
                "write more of the name; `belljar artifacts list` shows them",
            )),
            (_, None, _) => Err(refused(
                format!("there is none in {}", self.path().display()),
                "`belljar artifacts list` shows those there are",
            )),
        }
    }

    /// Removes what is older or more than this. Only files with an artifact's name are touched.
    ///
    /// # Errors
    /// When the directory cannot be read, or a file cannot be removed.
    pub fn prune(&self, keep: Retention) -> Result<Pruned, SandboxError> {
        let Some(dir) = self.open()? else { return Ok(Pruned::default()) };
        let found = self.scan(&dir, usize::MAX)?;
        // No artifact has this name, so none is spared.
        let spared = Name::new(SystemTime::now(), "");
        let pruned = remove(&dir, &outlived(found, keep, &spared));
        remove_abandoned(&dir, SystemTime::now());
        pruned.map_err(|error| self.failed(&error))
    }

    /// The directory, if there is one.
    fn open(&self) -> Result<Option<Dir>, SandboxError> {
        let opened = self.parent().and_then(|(parent, name)| {
            let parent = Dir::open_ambient_dir(parent, cap_std::ambient_authority())?;
            let configured = parent.open_dir_nofollow(name)?;
            Ok((configured.open_dir_nofollow(EXECUTIONS)?, configured))
        });
        match opened {
            Ok((dir, configured)) => {
                self.nobody_elses(&configured)?;
                self.ours(dir).map(Some)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// The directory, which is made if there is none.
    fn create(&self) -> Result<Dir, SandboxError> {
        let made = self.parent().and_then(|(parent, name)| {
            std::fs::create_dir_all(parent)?;
            let parent = Dir::open_ambient_dir(parent, cap_std::ambient_authority())?;
            entered(&parent, Path::new(name))
        });
        let configured = made.map_err(|error| self.failed(&error))?;
        self.nobody_elses(&configured)?;
        let dir = entered(&configured, Path::new(EXECUTIONS));
        self.ours(dir.map_err(|error| self.failed(&error))?)
    }

    /// The directory above the configured one, and the configured one's name in it.
    fn parent(&self) -> io::Result<(&Path, &std::ffi::OsStr)> {
        let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "it has no name of its own");
        let name = self.dir.file_name().ok_or_else(no_name)?;
        let parent = self.dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        Ok((parent.unwrap_or(Path::new(".")), name))
    }

    /// Refuses a configured directory in which somebody else could exchange ours. The system's
    /// own administrator can do that anywhere.
    fn nobody_elses(&self, configured: &Dir) -> Result<(), SandboxError> {
        let metadata = configured.dir_metadata().map_err(|error| self.failed(&error))?;
        let above = self.dir.display();
        if ![rustix::process::geteuid().as_raw(), 0].contains(&metadata.uid()) {
            return Err(self.unusable(format!("{above} belongs to another user")));
        }
        if metadata.mode() & 0o022 != 0 {
            return Err(self.unusable(format!("other users may write to {above}")));
        }
        Ok(())
    }

    /// Refuses a directory that somebody else can put files into.
    fn ours(&self, dir: Dir) -> Result<Dir, SandboxError> {
        let metadata = dir.dir_metadata().map_err(|error| self.failed(&error))?;
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(self.unusable("it belongs to another user".to_owned()));
        }
        if metadata.mode() & 0o022 != 0 {
            return Err(self.unusable("other users may write to it".to_owned()));
        }
        Ok(dir)
    }

    /// The artifacts' files, oldest first, at most so many.
    fn scan(&self, dir: &Dir, most: usize) -> Result<Vec<Found>, SandboxError> {
        let mut found = Vec::new();
        for entry in dir.entries().map_err(|error| self.failed(&error))?.take(most) {
            let entry = entry.map_err(|error| self.failed(&error))?;
            let Some(name) = entry.file_name().to_str().and_then(Name::of_file) else { continue };
            match entry.metadata() {
                Ok(metadata) if !metadata.is_dir() => {
                    found.push(Found { name, bytes: metadata.len() });
                }
                // A directory of that name is not ours; a file may be gone by now.
                Ok(_) | Err(_) => {}
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    fn failed(&self, error: &io::Error) -> SandboxError {
        use rustix::io::Errno;
        // What the system says to a link, or a file, that should have been a directory.
        let link = [Errno::LOOP, Errno::NOTDIR].map(|errno| Some(errno.raw_os_error()));
        self.unusable(if link.contains(&error.raw_os_error()) {
            "it, or executions in it, is a symbolic link or no directory".to_owned()
        } else {
            error.to_string()
        })
    }

    fn unusable(&self, problem: String) -> SandboxError {
        SandboxError::Cache {
            what: "the artifacts".to_owned(),
            path: self.path(),
            problem,
            hint: Some(
                "set SANDBOX_ARTIFACTS_DIR to a directory that only you can write to, or \
                 SANDBOX_STORE_CODE=never"
                    .to_owned(),
            ),
        }
    }
}

/// An artifact's file.
struct Found {
    name: Name,
    bytes: u64,
}

/// A directory for its owner only, made if it is not there. A link is not followed.
fn entered(parent: &Dir, name: &Path) -> io::Result<Dir> {
    match parent.create_dir_with(name, DirBuilder::new().mode(0o700)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    parent.open_dir_nofollow(name)
}

/// Writes a file beside its name and renames it: whoever reads it finds all of it.
fn write(dir: &Dir, name: &Name, json: &[u8]) -> io::Result<()> {
    let new = format!("{NEW_PREFIX}{}", name.as_str());
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).follow(FollowSymlinks::No);
    let mut file = dir.open_with(&new, &options)?;
    let written = file
        .write_all(json)
        .and_then(|()| file.sync_all())
        .and_then(|()| dir.rename(&new, dir, name.file()));
    if written.is_err() {
        let _ = dir.remove_file(&new);
    }
    written?;
    // The new name has to reach the disk as well.
    dir.open(".")?.sync_all()
}

fn read(dir: &Dir, name: &Name) -> Result<Artifact, String> {
    let mut options = OpenOptions::new();
    // A pipe of that name must not make us wait for a writer.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    options.read(true).follow(FollowSymlinks::No).custom_flags(flags);
    let file = dir.open_with(name.file(), &options).map_err(|error| error.to_string())?;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err("it is no file".to_owned());
    }
    let mut json = Vec::new();
    file.take(MAX_ARTIFACT_BYTES + 1).read_to_end(&mut json).map_err(|error| error.to_string())?;
    if json.len() as u64 > MAX_ARTIFACT_BYTES {
        return Err(format!("it is larger than {}", format_bytes(MAX_ARTIFACT_BYTES)));
    }
    Artifact::from_json(&json)
}

/// Those that are too old, and the oldest of what is too much.
fn outlived(found: Vec<Found>, keep: Retention, spared: &Name) -> Vec<Found> {
    let oldest = SystemTime::now().checked_sub(keep.max_age);
    let mut total: u64 = found.iter().map(|file| file.bytes).sum();
    found
        .into_iter()
        .filter(|file| {
            let old = match (file.name.made(), oldest) {
                (Some(made), Some(oldest)) => made < oldest,
                _ => false,
            };
            let goes = (old || total > keep.max_bytes) && file.name != *spared;
            if goes {
                total -= file.bytes;
            }
            goes
        })
        .collect()
}

/// Removes what can be removed. Fails only when nothing could be.
fn remove(dir: &Dir, files: &[Found]) -> io::Result<Pruned> {
    let (mut pruned, mut failed) = (Pruned::default(), None);
    for Found { name, bytes } in files {
        match dir.remove_file(name.file()) {
            Ok(()) => {
                pruned.removed.push(name.as_str().to_owned());
                pruned.bytes += bytes;
            }
            // Another process was quicker.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if pruned.removed.is_empty() => Err(error),
        Some(_) | None => Ok(pruned),
    }
}

/// Removes what a process that was killed has left half-written.
fn remove_abandoned(dir: &Dir, now: SystemTime) {
    let Ok(entries) = dir.entries() else { return };
    for entry in entries.take(MAX_ARTIFACTS_LOOKED_AT).flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let stem = file.strip_prefix(NEW_PREFIX).map(|stem| format!("{stem}{}", name::EXTENSION));
        let Some(name) = stem.as_deref().and_then(Name::of_file) else { continue };
        let age = name.made().and_then(|made| now.duration_since(made).ok());
        if age.is_some_and(|age| age > ABANDONED) {
            let _ = dir.remove_file(&file);
        }
    }
}
