//! Wheels: their names, their hashes, and how to unpack one that nobody trusts.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use belljar_core::units::format_bytes;
use belljar_core::{SandboxError, limits};
use sha2::{Digest, Sha256};

use super::lock::Package;

/// Endings of files that hold native code.
const NATIVE_ENDINGS: [&str; 3] = ["so", "pyd", "dylib"];

/// What a wheel's file name says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WheelName {
    pub(super) file_name: String,
    /// Normalised, as package indexes compare names.
    pub(super) distribution: String,
    pub(super) version: String,
}

impl WheelName {
    /// Reads `name-version(-build)-python-abi-platform.whl`, and refuses native wheels.
    pub(super) fn of_file(path: &Path) -> Result<Self, SandboxError> {
        let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let parts: Vec<&str> = file_name.strip_suffix(".whl").unwrap_or("").split('-').collect();
        let (distribution, version, abi, platform) = match parts[..] {
            [name, version, _, abi, platform] | [name, version, _, _, abi, platform] => {
                (name, version, abi, platform)
            }
            _ => return Err(refused(format!("{file_name} is not a wheel"), None)),
        };
        if abi != "none" || platform != "any" {
            return Err(native(&file_name));
        }
        Ok(Self {
            distribution: normalized(distribution),
            version: version.to_owned(),
            file_name: file_name.clone(),
        })
    }
}

/// A package's name as indexes compare it: lower case, runs of `-`, `_` and `.` as one `-`.
pub(super) fn normalized(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if out.ends_with('-') => {}
            '-' | '_' | '.' => out.push('-'),
            _ => out.extend(c.to_lowercase()),
        }
    }
    out
}

/// The refusal of a wheel with native code.
pub(super) fn native(wheel: &str) -> SandboxError {
    refused(
        format!("{wheel} has native code, which cannot run in the sandbox"),
        Some(
            "only pure-Python packages (wheels that end in -none-any.whl) can be added; numpy, \
             pandas and matplotlib are in the data image"
                .to_owned(),
        ),
    )
}

/// The file's SHA-256 in hexadecimal.
pub(super) fn sha256(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = file.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        hasher.update(&buffer[..length]);
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Unpacks a package's wheel into a directory of ours, after checking that it is the one that was
/// recorded.
pub(super) fn unpack(wheel: &Path, package: &Package, into: &Path) -> Result<(), SandboxError> {
    let name = &package.wheel;
    let broken = |problem: String| refused(format!("{name} cannot be unpacked: {problem}"), None);
    let file = File::open(wheel).map_err(|error| broken(error.to_string()))?;
    let size = file.metadata().map_err(|error| broken(error.to_string()))?.len();
    if size > limits::MAX_WHEEL_BYTES {
        let most = format_bytes(limits::MAX_WHEEL_BYTES);
        return Err(broken(format!("it is larger than {most}")));
    }
    let found = sha256(wheel).map_err(|error| broken(error.to_string()))?;
    if found != package.sha256 {
        return Err(refused(
            format!("{name} has changed on disk since it was added"),
            Some("remove the package and add it again".to_owned()),
        ));
    }
    let mut archive = zip::ZipArchive::new(io::BufReader::new(file))
        .map_err(|error| broken(error.to_string()))?;
    if archive.len() > limits::MAX_WHEEL_FILES {
        return Err(broken(format!("it has more than {} files", limits::MAX_WHEEL_FILES)));
    }
    let mut room = limits::MAX_UNPACKED_WHEEL_BYTES;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|error| broken(error.to_string()))?;
        let entry_name = String::from_utf8(entry.name_raw().to_vec())
            .map_err(|_| broken("a file's name is not UTF-8".to_owned()))?;
        let kind = entry.unix_mode().unwrap_or(0) & 0o170_000;
        if kind != 0 && kind != 0o100_000 && kind != 0o040_000 {
            return Err(broken(format!("{entry_name:?} is a link or a device")));
        }
        let path = safe_path(&entry_name)
            .ok_or_else(|| broken(format!("the name {entry_name:?} leads outside")))?;
        let Some(path) = installed_path(&path) else { continue };
        if NATIVE_ENDINGS
            .iter()
            .any(|ending| path.extension().is_some_and(|found| found == *ending))
        {
            return Err(native(&format!("{name} ({})", path.display())));
        }
        let target = into.join(&path);
        if entry.is_dir() {
            fs::create_dir_all(&target).map_err(|error| broken(error.to_string()))?;
        } else {
            room = write_entry(&mut entry, &target, room).map_err(broken)?;
        }
    }
    Ok(())
}

/// Writes one file and returns how much room is left.
fn write_entry(entry: &mut impl Read, target: &Path, room: u64) -> Result<u64, String> {
    let parent = target.parent().ok_or("a file has no directory")?;
    let mut write = || -> io::Result<u64> {
        fs::create_dir_all(parent)?;
        let mut file = io::BufWriter::new(File::create(target)?);
        let written = io::copy(&mut entry.take(room + 1), &mut file)?;
        file.flush()?;
        Ok(written)
    };
    let written = write().map_err(|error| format!("{}: {error}", target.display()))?;
    room.checked_sub(written).ok_or_else(|| {
        format!("it unpacks to more than {}", format_bytes(limits::MAX_UNPACKED_WHEEL_BYTES))
    })
}

/// The entry's path if it stays inside: relative, without `..`, backslash, NUL or drive.
fn safe_path(name: &str) -> Option<PathBuf> {
    if name.is_empty()
        || name.len() > limits::MAX_PATH_BYTES
        || name.contains(['\\', '\0', ':'])
        || name.starts_with('/')
    {
        return None;
    }
    let path = PathBuf::from(name);
    let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    (inside && path.file_name().is_some()).then_some(path)
}

/// Where an entry goes: `NAME.data/purelib/x` and `NAME.data/platlib/x` are `x`; the other parts of
/// a `.data` directory (scripts, headers) have no use in a guest.
fn installed_path(path: &Path) -> Option<PathBuf> {
    let mut parts = path.components();
    let first = parts.next()?;
    if Path::new(first.as_os_str()).extension().is_none_or(|ending| ending != "data") {
        return Some(path.to_owned());
    }
    let scheme = parts.next()?;
    let rest = parts.as_path();
    let installed = scheme.as_os_str() == "purelib" || scheme.as_os_str() == "platlib";
    (installed && rest.file_name().is_some()).then(|| rest.to_owned())
}

pub(super) fn refused(problem: String, hint: Option<String>) -> SandboxError {
    SandboxError::Package { problem, hint }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_pure_wheels_are_read() {
        for (file, name, version) in [
            ("urllib3-2.8.0-py3-none-any.whl", "urllib3", "2.8.0"),
            ("Zope.Interface__x-1.0-1-py2.py3-none-any.whl", "zope-interface-x", "1.0"),
        ] {
            let wheel = WheelName::of_file(Path::new(file)).unwrap();
            assert_eq!((wheel.distribution.as_str(), wheel.version.as_str()), (name, version));
        }
    }

    #[test]
    fn native_wheels_and_other_files_are_refused_by_name() {
        let shown: Vec<String> = [
            "numpy-2.1.0-cp313-cp313-manylinux_2_17_x86_64.whl",
            "x-1-cp313-none-win_amd64.whl",
            "thing-1.0.tar.gz",
            "a-b.whl",
        ]
        .iter()
        .map(|file| WheelName::of_file(Path::new(file)).unwrap_err().to_string())
        .collect();
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn paths_that_lead_outside_are_refused() {
        for name in ["/etc/x", "../x", "a/../../x", "a\\..\\x", "C:x", "a\0b", "", "/", "..", "./"]
        {
            assert_eq!(safe_path(name), None, "{name:?}");
        }
        assert_eq!(safe_path("a/b.py"), Some("a/b.py".into()));
        assert_eq!(safe_path("a/"), Some("a/".into()));
    }

    #[test]
    fn data_directories_are_sorted_out() {
        let installed = |path: &str| installed_path(Path::new(path));
        assert_eq!(installed("x-1.data/purelib/x/y.py"), Some("x/y.py".into()));
        assert_eq!(installed("x-1.data/scripts/run"), None);
        assert_eq!(installed("x/y.py"), Some("x/y.py".into()));
    }

    proptest! {
        #[test]
        fn a_safe_path_stays_inside(name in "[a./\\\\:\\x00]{0,12}") {
            if let Some(path) = safe_path(&name) {
                prop_assert!(Path::new("/root").join(path).starts_with("/root"));
                prop_assert!(!name.split('/').any(|part| part == ".."));
            }
        }
    }
}
