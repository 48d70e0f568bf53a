//! Pure-Python packages for guests: fetched by pip, checked, unpacked, mounted read-only.
//!
//! ```text
//! packages/lock.json               what is installed, with hashes; replacing it is the commit point
//! packages/wheels/SHA256.whl       the wheels as they came
//! packages/generations/ID/         their contents together: the guest's site-packages
//! ```
//!
//! A change builds a new generation beside the old one and then replaces the lock file, so that
//! nothing half-written is ever seen. The generation before is kept for sandboxes that still use
//! it.

mod lock;
mod pip;
mod stand_ins;
mod wheel;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use belljar_core::SandboxError;

use lock::LockFile;
pub use lock::Package;
use wheel::WheelName;

use crate::home::Home;

/// The Python version packages are chosen for: the embedded guest's.
pub const GUEST_PYTHON_VERSION: &str = "3.13";

/// The directory to mount as the guest's site-packages, or `None` when no package was added.
///
/// # Errors
/// When the lock file is damaged or the directory it names is gone.
pub fn site_packages(home: &Home) -> Result<Option<PathBuf>, SandboxError> {
    let store = Packages::open(home);
    let lock = store.read_lock()?;
    let Some(generation) = lock.generation else { return Ok(None) };
    let path = store.generation_dir(&generation);
    if path.is_dir() {
        return Ok(Some(path));
    }
    Err(SandboxError::Cache {
        what: "the added packages".to_owned(),
        path,
        problem: "the directory is gone".to_owned(),
        hint: Some("add one of them again with `belljar packages add` to rebuild it".to_owned()),
    })
}

/// The packages added for guests.
#[derive(Debug, Clone)]
pub struct Packages {
    root: PathBuf,
}

impl Packages {
    /// The packages in Belljar's directory. Creates nothing.
    #[must_use]
    pub fn open(home: &Home) -> Self {
        Self { root: home.packages() }
    }

    /// What is installed, sorted by name.
    ///
    /// # Errors
    /// When the lock file is damaged.
    pub fn list(&self) -> Result<Vec<Package>, SandboxError> {
        Ok(self.read_lock()?.packages)
    }

    /// Adds packages and what they depend on, but for what the data image has and is native
    /// elsewhere. Returns those that were added or replaced.
    ///
    /// A requirement is a name with an optional version (`urllib3`, `requests==2.32.3`) or a path
    /// of a `.whl` file.
    ///
    /// # Errors
    /// When one cannot be fetched, has native code or is not a proper wheel. Then nothing changes.
    pub fn add(&self, requirements: &[String]) -> Result<Vec<Package>, SandboxError> {
        let requirements = requirements
            .iter()
            .map(|text| pip::Requirement::parse(text))
            .collect::<Result<Vec<_>, _>>()?;
        self.add_from(&requirements, pip::download)
    }

    /// Removes packages. What they brought along stays. Returns those that were removed.
    ///
    /// # Errors
    /// When one is not installed. Then nothing changes.
    pub fn remove(&self, names: &[String]) -> Result<Vec<Package>, SandboxError> {
        let _guard = self.exclusive()?;
        let mut lock = self.read_lock()?;
        let mut removed = Vec::new();
        for name in names {
            removed.push(lock.take(name).ok_or_else(|| not_installed(name, &lock))?);
        }
        self.install(lock, None)?;
        Ok(removed)
    }

    /// Adds what `fetch` puts into the directory it is given.
    fn add_from(
        &self,
        requirements: &[pip::Requirement],
        fetch: impl FnOnce(&[pip::Requirement], &Path) -> Result<(), SandboxError>,
    ) -> Result<Vec<Package>, SandboxError> {
        let _guard = self.exclusive()?;
        let mut lock = self.read_lock()?;
        let staging = tempfile::Builder::new()
            .prefix(".download-")
            .tempdir_in(&self.root)
            .map_err(|error| self.io_error(&self.root, &error))?;
        fetch(requirements, staging.path())?;
        let mut added = Vec::new();
        for file in self.files_in(staging.path())? {
            let name = WheelName::of_file(&file)?;
            let requested = requirements.iter().any(|requirement| requirement.asks_for(&name));
            added.push(Package {
                name: name.distribution.clone(),
                version: name.version.clone(),
                wheel: name.file_name.clone(),
                sha256: wheel::sha256(&file).map_err(|error| self.io_error(&file, &error))?,
                requested,
            });
        }
        for package in &added {
            lock.put(package.clone());
        }
        self.install(lock, Some(staging.path()))?;
        Ok(added)
    }

    /// Makes the lock's packages the installed ones: unpack into a new generation, keep the new
    /// wheels, replace the lock file, tidy up.
    fn install(&self, mut lock: LockFile, fresh: Option<&Path>) -> Result<(), SandboxError> {
        let wheels = self.root.join("wheels");
        let generations = self.root.join("generations");
        for dir in [&wheels, &generations] {
            fs::create_dir_all(dir).map_err(|error| self.io_error(dir, &error))?;
        }
        let previous = lock.generation.take();
        if !lock.packages.is_empty() {
            let staged = tempfile::Builder::new()
                .prefix(".staged-")
                .tempdir_in(&generations)
                .map_err(|error| self.io_error(&generations, &error))?;
            for package in &lock.packages {
                let kept = wheel_path(&wheels, package);
                let fetched =
                    fresh.map(|dir| dir.join(&package.wheel)).filter(|path| path.is_file());
                wheel::unpack(fetched.as_ref().unwrap_or(&kept), package, staged.path())?;
                if let Some(fetched) = fetched {
                    fs::rename(&fetched, &kept).map_err(|error| self.io_error(&kept, &error))?;
                }
            }
            lock.generation = Some(self.publish(staged)?);
        }
        if let Err(error) = lock.write(&self.lock_path()) {
            if let Some(generation) = &lock.generation {
                let _ = fs::remove_dir_all(self.generation_dir(generation));
            }
            return Err(error);
        }
        self.tidy(&lock, previous.as_deref());
        Ok(())
    }

    /// Gives a finished staging directory its name and makes it readable like any other.
    fn publish(&self, staged: tempfile::TempDir) -> Result<String, SandboxError> {
        let suffix = staged.path().file_name().unwrap_or_default().to_string_lossy();
        let id = suffix.trim_start_matches(".staged-").to_owned();
        let target = self.generation_dir(&id);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(staged.path(), fs::Permissions::from_mode(0o755))
                .map_err(|error| self.io_error(staged.path(), &error))?;
        }
        fs::rename(staged.path(), &target).map_err(|error| self.io_error(&target, &error))?;
        // The directory has moved, so there is nothing left for the guard to remove.
        let _gone = staged.keep();
        Ok(id)
    }

    /// Removes generations and wheels nothing refers to. The generation that was current until now
    /// stays for sandboxes that use it. Failure to tidy is no failure.
    fn tidy(&self, lock: &LockFile, previous: Option<&str>) {
        let keep = [lock.generation.as_deref(), previous];
        for path in self.files_in(&self.root.join("generations")).unwrap_or_default() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !keep.contains(&Some(name.as_str())) {
                let _ = fs::remove_dir_all(&path);
            }
        }
        let wheels = self.root.join("wheels");
        for path in self.files_in(&wheels).unwrap_or_default() {
            if !lock.packages.iter().any(|package| wheel_path(&wheels, package) == path) {
                let _ = fs::remove_file(&path);
            }
        }
    }

    /// One change at a time. Released when the file is closed.
    fn exclusive(&self) -> Result<File, SandboxError> {
        let path = self.root.join(".lock");
        fs::create_dir_all(&self.root).map_err(|error| self.io_error(&self.root, &error))?;
        let open = || {
            let file = File::options().create(true).truncate(false).write(true).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        open().map_err(|error| self.io_error(&path, &error))
    }

    fn read_lock(&self) -> Result<LockFile, SandboxError> {
        LockFile::read(&self.lock_path())
    }

    fn lock_path(&self) -> PathBuf {
        self.root.join("lock.json")
    }

    fn generation_dir(&self, id: &str) -> PathBuf {
        self.root.join("generations").join(id)
    }

    fn files_in(&self, dir: &Path) -> Result<Vec<PathBuf>, SandboxError> {
        let entries = fs::read_dir(dir).map_err(|error| self.io_error(dir, &error))?;
        let mut paths = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<Vec<_>>>()
            .map_err(|error| self.io_error(dir, &error))?;
        paths.sort();
        Ok(paths)
    }

    #[expect(clippy::unused_self, reason = "reads better beside the methods that use it")]
    fn io_error(&self, path: &Path, error: &io::Error) -> SandboxError {
        cache_error(path, error.to_string(), None)
    }
}

pub(crate) fn cache_error(path: &Path, problem: String, hint: Option<String>) -> SandboxError {
    SandboxError::Cache {
        what: "the added packages".to_owned(),
        path: path.to_owned(),
        problem,
        hint,
    }
}

/// Wheels are kept under their hash, so that a new one never overwrites one that is in use.
fn wheel_path(wheels: &Path, package: &Package) -> PathBuf {
    wheels.join(format!("{}.whl", package.sha256))
}

fn not_installed(name: &str, lock: &LockFile) -> SandboxError {
    let names: Vec<&str> = lock.packages.iter().map(|package| package.name.as_str()).collect();
    SandboxError::Package {
        problem: format!("the package {name} is not installed"),
        hint: Some(if names.is_empty() {
            "no packages are installed".to_owned()
        } else {
            format!("installed are {}", names.join(", "))
        }),
    }
}

#[cfg(test)]
mod tests;
