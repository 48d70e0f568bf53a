//! Empty wheels in the names of what the data image has. Elsewhere those packages are native, which
//! pip would refuse, and with them every pure package that depends on them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use belljar_core::{GuestImage, RuntimeType};
use belljar_wasm::manifest_of;
use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::wheel::normalized;

/// Packages of the data image for which there are no pure wheels. The others are fetched as usual:
/// whoever depends on them may run in the plain image.
const NATIVE_ELSEWHERE: [&str; 8] =
    ["contourpy", "kiwisolver", "markupsafe", "matplotlib", "numpy", "pandas", "pillow", "pyyaml"];

/// A folder of stand-ins, for pip to look in.
pub(super) struct StandIns {
    folder: TempDir,
}

impl StandIns {
    /// One for each package that the data image has, but for those that were asked for themselves:
    /// they cannot be added.
    pub(super) fn write(asked_for: impl Fn(&str) -> bool) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let manifest = manifest_of(RuntimeType::Python, GuestImage::Data);
        for package in manifest.map(|manifest| manifest.packages).unwrap_or_default() {
            let name = normalized(&package.name);
            if NATIVE_ELSEWHERE.contains(&name.as_str()) && !asked_for(&name) {
                write_wheel(folder.path(), &name, &package.version)?;
            }
        }
        Ok(Self { folder })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Takes them out of what pip has put together.
    pub(super) fn remove_from(&self, fetched: &Path) -> io::Result<()> {
        for entry in fs::read_dir(self.folder())? {
            let stand_in = fetched.join(entry?.file_name());
            if stand_in.exists() {
                fs::remove_file(stand_in)?;
            }
        }
        Ok(())
    }
}

fn write_wheel(folder: &Path, name: &str, version: &str) -> io::Result<()> {
    let wheel =
        "Wheel-Version: 1.0\nGenerator: belljar\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
    let mut archive =
        ZipWriter::new(File::create(folder.join(format!("{name}-{version}-py3-none-any.whl")))?);
    for (file, text) in [("METADATA", metadata.as_str()), ("WHEEL", wheel), ("RECORD", "")] {
        let path = format!("{name}-{version}.dist-info/{file}");
        archive.start_file(path, SimpleFileOptions::default())?;
        archive.write_all(text.as_bytes())?;
    }
    archive.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .map(|file| file.split('-').next().unwrap_or_default().to_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn everything_native_has_a_stand_in_but_what_was_asked_for() {
        assert_eq!(names(StandIns::write(|_| false).unwrap().folder()), NATIVE_ELSEWHERE);
        let others = StandIns::write(|name| name == "numpy").unwrap();
        assert!(!names(others.folder()).contains(&"numpy".to_owned()));
    }

    #[test]
    fn stand_ins_are_taken_out_and_nothing_else() {
        let stand_ins = StandIns::write(|_| false).unwrap();
        let fetched = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(stand_ins.folder()).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), fetched.path().join(entry.file_name())).unwrap();
        }
        fs::write(fetched.path().join("seaborn-0.13.2-py3-none-any.whl"), "").unwrap();
        stand_ins.remove_from(fetched.path()).unwrap();
        assert_eq!(names(fetched.path()), ["seaborn"]);
    }
}
