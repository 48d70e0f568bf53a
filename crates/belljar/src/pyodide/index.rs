//! Where Pyodide is loaded from: a folder, or addresses from which it is fetched once.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use belljar_core::{Backend, SandboxError};

use super::engine::Engine;
use super::{DRIVER_NAME, DRIVER_PARTS};
use crate::drivers::unpack;

/// Where Pyodide is loaded from unless somebody says otherwise.
pub const DEFAULT_INDEX_URL: &str = "https://cdn.jsdelivr.net/pyodide/v314.0.7/full/";

/// What a folder has to hold.
pub(super) const FILES: [&str; 5] = [
    "pyodide.mjs",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "python_stdlib.zip",
    "pyodide-lock.json",
];

/// What Pyodide's own module and library take in memory, beside the user's code.
pub(super) const MODULE_BYTES: u64 = 256 * 1024 * 1024;

/// The first of these places that has it; what is fetched is kept in the cache.
pub(super) fn folder(
    places: &[String],
    cache: &Path,
    engine: &Engine,
) -> Result<PathBuf, SandboxError> {
    let default = [DEFAULT_INDEX_URL.to_owned()];
    let places = if places.is_empty() { &default[..] } else { places };
    let mut problems = Vec::new();
    for place in places {
        let found = match place.split_once("://") {
            Some(("https", _)) => fetched(place, cache, engine),
            Some(("http", _)) => Err("only https is fetched".to_owned()),
            _ => local(place),
        };
        match found {
            Ok(folder) => return Ok(folder),
            Err(problem) => problems.push(format!("cannot load Pyodide from {place}: {problem}")),
        }
    }
    Err(SandboxError::BackendUnavailable {
        backend: Backend::Pyodide,
        reason: problems.join("; "),
        hint: Some(
            "`npm install pyodide` and name the folder node_modules/pyodide with --index-url"
                .to_owned(),
        ),
    })
}

fn local(place: &str) -> Result<PathBuf, String> {
    let folder = Path::new(place.strip_prefix("file://").unwrap_or(place));
    let folder = folder.canonicalize().map_err(|_| "there is no such folder".to_owned())?;
    complete(&folder)?;
    Ok(folder)
}

fn complete(folder: &Path) -> Result<(), String> {
    let missing = FILES.into_iter().filter(|file| !folder.join(file).is_file());
    let missing: Vec<&str> = missing.collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!("the folder is not complete, {} is missing", missing.join(", ")))
    }
}

/// Fetched outside of the jail, in which there is no network, by the driver's own code.
fn fetched(address: &str, cache: &Path, engine: &Engine) -> Result<PathBuf, String> {
    let name = blake3::hash(address.as_bytes()).to_hex();
    let folder = cache.join(format!("pyodide-{}", &name[..16]));
    if complete(&folder).is_ok() {
        return Ok(folder);
    }
    let driver = unpack(cache, DRIVER_NAME, &DRIVER_PARTS, |_| {}).map_err(|e| e.to_string())?;
    let output = Command::new(engine.program())
        .args(engine.arguments(false))
        .args(matches!(engine, Engine::Deno { .. }).then_some("--allow-net"))
        .arg(driver.join("pyodide/main.mjs"))
        .args(["--index-url", address, "--download"])
        .arg(&folder)
        .env("DENO_DIR", cache.join("deno"))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return complete(&folder).map(|()| folder);
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(said.lines().last().unwrap_or("the download failed").to_owned())
}

#[cfg(test)]
mod tests {
    use belljar_guests::drivers;

    use super::*;

    #[test]
    fn the_default_is_the_release_the_driver_was_written_for() {
        let options =
            drivers::PYODIDE.get_file("options.mjs").and_then(|file| file.contents_utf8());
        let version = DEFAULT_INDEX_URL.split("/v").nth(1).unwrap().split('/').next().unwrap();
        assert!(options.unwrap().contains(&format!("DEFAULT_VERSION = \"{version}\"")));
    }

    #[test]
    fn an_incomplete_folder_is_refused_with_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        for file in &FILES[1..] {
            std::fs::write(folder.path().join(file), "").unwrap();
        }
        assert_eq!(
            local(folder.path().to_str().unwrap()).unwrap_err(),
            "the folder is not complete, pyodide.mjs is missing"
        );
        assert_eq!(local("/nowhere/at/all").unwrap_err(), "there is no such folder");
    }
}
