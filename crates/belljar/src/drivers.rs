//! The drivers of interpreters in processes, as files: unpacked once into Belljar's cache, from
//! where jails mount them.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use belljar_core::SandboxError;
use include_dir::Dir;

/// Sources and the folder they belong into.
pub(crate) type Part = (&'static str, &'static Dir<'static>);

/// Where these parts are unpacked, or will be.
pub(crate) fn place(cache: &Path, name: &str, parts: &[Part]) -> PathBuf {
    cache.join(format!("{name}-{}", fingerprint(parts)))
}

/// The folder that holds these parts, each in a folder of its own. `prepare` may add to it before
/// it is put in place.
pub(crate) fn unpack(
    cache: &Path,
    name: &str,
    parts: &[Part],
    prepare: impl FnOnce(&Path),
) -> Result<PathBuf, SandboxError> {
    let target = place(cache, name, parts);
    let unusable = |error: io::Error| SandboxError::Cache {
        what: "the driver of an interpreter".to_owned(),
        path: target.clone(),
        problem: error.to_string(),
        hint: None,
    };
    if is_ours(&target).map_err(unusable)? {
        return Ok(target);
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(cache).map_err(unusable)?;
    let made = tempfile::Builder::new().prefix(".driver-").tempdir_in(cache).map_err(unusable)?;
    for (folder, dir) in parts {
        write(&made.path().join(folder), dir).map_err(unusable)?;
    }
    // The jail's user is not always ours; there is nothing secret in it.
    fs::set_permissions(made.path(), Permissions::from_mode(0o755)).map_err(unusable)?;
    prepare(made.path());
    match fs::rename(made.path(), &target) {
        Ok(()) => {}
        // Another process was faster, with the same files.
        Err(_) if is_ours(&target).map_err(unusable)? => {}
        Err(error) => return Err(unusable(error)),
    }
    Ok(target)
}

/// Whether it is there. What others could have written is not used.
fn is_ours(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(found) => {
            let own = found.uid() == rustix::process::geteuid().as_raw();
            if own && found.is_dir() && found.mode() & 0o022 == 0 {
                Ok(true)
            } else {
                Err(io::Error::other("it belongs to another user, or others may write to it"))
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn write(folder: &Path, dir: &Dir<'_>) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    for file in dir.files().filter(|file| wanted(file.path())) {
        let path = folder.join(file.path().file_name().unwrap_or_default());
        fs::write(&path, file.contents())?;
        fs::set_permissions(path, Permissions::from_mode(0o644))?;
    }
    for sub in dir.dirs().filter(|sub| wanted(sub.path())) {
        write(&folder.join(sub.path().file_name().unwrap_or_default()), sub)?;
    }
    Ok(())
}

fn wanted(path: &Path) -> bool {
    !path.components().any(|part| {
        matches!(
            part.as_os_str().to_str(),
            Some("tests" | "__pycache__" | "node_modules" | "README.md")
        )
    })
}

fn fingerprint(parts: &[Part]) -> String {
    fn add(hasher: &mut blake3::Hasher, dir: &Dir<'_>) {
        for file in dir.files().filter(|file| wanted(file.path())) {
            hasher.update(file.path().as_os_str().as_encoded_bytes());
            hasher.update(&(file.contents().len() as u64).to_le_bytes());
            hasher.update(file.contents());
        }
        for sub in dir.dirs().filter(|sub| wanted(sub.path())) {
            add(hasher, sub);
        }
    }
    let mut hasher = blake3::Hasher::new();
    for (folder, dir) in parts {
        hasher.update(folder.as_bytes());
        add(&mut hasher, dir);
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use belljar_guests::drivers;

    use super::*;

    #[test]
    fn sources_are_unpacked_once_and_without_their_tests() {
        let cache = tempfile::tempdir().unwrap();
        let parts: [Part; 2] = [("driver", &drivers::PYTHON), ("native", &drivers::PYTHON_NATIVE)];
        let mut prepared = 0;
        let mut get = || unpack(cache.path(), "python", &parts, |_| prepared += 1).unwrap();
        let (first, second) = (get(), get());
        assert_eq!(first, second);
        assert!(first.join("driver/belljar_guest/cells.py").is_file());
        assert!(first.join("native/main.py").is_file() && !first.join("native/tests").exists());
        assert_eq!(prepared, 1);
    }

    #[test]
    fn what_others_could_write_is_not_used() {
        let cache = tempfile::tempdir().unwrap();
        let parts: [Part; 1] = [("driver", &drivers::PYTHON)];
        let folder = unpack(cache.path(), "python", &parts, |_| {}).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        assert!(unpack(cache.path(), "python", &parts, |_| {}).is_err());
    }
}
