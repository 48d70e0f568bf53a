//! Checks of the host directories a guest will see.

use std::path::{Path, PathBuf};

use belljar_core::{Backend, SandboxError};
use tempfile::TempDir;

use crate::docker_settings::DockerSettings;
use crate::workspace_files;

/// A new workspace for a sandbox of this backend, which only its owner may enter, and which is
/// removed when it is dropped. The user of a container becomes its owner, if one will run.
///
/// # Errors
/// When none can be made.
pub fn temporary(backend: Backend, docker: &DockerSettings) -> Result<TempDir, SandboxError> {
    let directory = workspace_files::temporary()?;
    #[cfg(all(target_os = "linux", feature = "docker"))]
    if backend == Backend::Docker && (!docker.fallback || crate::docker::answers(docker)) {
        crate::docker::hand_over(directory.path())?;
    }
    #[cfg(not(all(target_os = "linux", feature = "docker")))]
    let _ = (backend, docker);
    Ok(directory)
}

/// A workspace that can be used: an existing, writable directory. Returns its absolute path.
///
/// A symbolic link is refused, because the workspace that is reported and the one that is written
/// would have different names; the hint says what it points to.
///
/// # Errors
/// When it is anything else.
pub fn check_workspace(path: &Path) -> Result<PathBuf, SandboxError> {
    check_workspace_with(path, is_writable)
}

fn check_workspace_with(
    path: &Path,
    is_writable: impl Fn(&Path) -> bool,
) -> Result<PathBuf, SandboxError> {
    let absolute = check_directory(path)?;
    if !is_writable(&absolute) {
        return Err(unusable(
            path,
            "it is not writable".to_owned(),
            Some("change its permissions, or give it as --data, which is read-only".to_owned()),
        ));
    }
    Ok(absolute)
}

/// A directory that can be shown to a guest read-only. Returns its absolute path.
///
/// # Errors
/// When it does not exist, is no directory, or is a symbolic link.
pub fn check_directory(path: &Path) -> Result<PathBuf, SandboxError> {
    let metadata = path.symlink_metadata().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => unusable(
            path,
            "it does not exist".to_owned(),
            Some("create it first; Belljar does not, so that a typing error is noticed".to_owned()),
        ),
        _ => unusable(path, error.to_string(), None),
    })?;
    if metadata.is_symlink() {
        let target = std::fs::canonicalize(path).ok();
        return Err(unusable(
            path,
            "it is a symbolic link".to_owned(),
            Some(match target {
                Some(target) => format!("give the directory itself: {}", target.display()),
                None => "it points nowhere; give an existing directory".to_owned(),
            }),
        ));
    }
    if !metadata.is_dir() {
        return Err(unusable(
            path,
            "it is not a directory".to_owned(),
            Some("give the directory that holds it".to_owned()),
        ));
    }
    std::fs::canonicalize(path).map_err(|error| unusable(path, error.to_string(), None))
}

fn unusable(path: &Path, problem: String, hint: Option<String>) -> SandboxError {
    SandboxError::Workspace { path: path.to_owned(), problem, hint }
}

#[cfg(unix)]
fn is_writable(path: &Path) -> bool {
    use rustix::fs::{Access, access};
    access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn is_writable(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.permissions().readonly())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(dir: &Path, name: &str) -> String {
        let error = check_workspace(&dir.join(name)).unwrap_err();
        format!("{error}\nhint: {}", error.hint().unwrap_or_default())
            .replace(&dir.display().to_string(), "DIR")
    }

    #[test]
    fn an_existing_directory_is_fine() {
        let dir = tempfile::tempdir().unwrap();
        assert!(check_workspace(dir.path()).unwrap().is_absolute());
    }

    #[test]
    fn a_missing_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        insta::assert_snapshot!(complaint(dir.path(), "no"), @r"
        the directory DIR/no cannot be used: it does not exist; nothing was run
        hint: create it first; Belljar does not, so that a typing error is noticed
        ");
    }

    #[test]
    fn a_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), "").unwrap();
        insta::assert_snapshot!(complaint(dir.path(), "f"), @r"
        the directory DIR/f cannot be used: it is not a directory; nothing was run
        hint: give the directory that holds it
        ");
    }

    #[cfg(unix)]
    #[test]
    fn a_symbolic_link_is_refused_and_its_target_named() {
        let dir = tempfile::tempdir().unwrap();
        let real = std::fs::canonicalize(dir.path()).unwrap();
        std::fs::create_dir(real.join("real")).unwrap();
        std::os::unix::fs::symlink(real.join("real"), real.join("link")).unwrap();
        std::os::unix::fs::symlink(real.join("gone"), real.join("dangling")).unwrap();
        insta::assert_snapshot!(complaint(&real, "link"), @r"
        the directory DIR/link cannot be used: it is a symbolic link; nothing was run
        hint: give the directory itself: DIR/real
        ");
        insta::assert_snapshot!(complaint(&real, "dangling"), @r"
        the directory DIR/dangling cannot be used: it is a symbolic link; nothing was run
        hint: it points nowhere; give an existing directory
        ");
    }

    /// Permissions do not bind root, so the question is answered by the test.
    #[test]
    fn a_read_only_directory_is_no_workspace_but_can_be_data() {
        let dir = tempfile::tempdir().unwrap();
        let error = check_workspace_with(dir.path(), |_| false).unwrap_err().to_string();
        insta::assert_snapshot!(
            error.replace(&dir.path().display().to_string(), "DIR"),
            @"the directory DIR cannot be used: it is not writable; nothing was run"
        );
        assert!(check_directory(dir.path()).is_ok());
    }
}
