//! The helper and the zygote's library, kept in memory and run from there: nothing is installed,
//! and nothing on a disk can be exchanged for something else.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;

use crate::error::JailError;

const HELPER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/helper"));
const ZYGOTE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/zygote.so"));

/// The program that applies a plan.
pub(crate) fn helper() -> Result<&'static OwnedFd, JailError> {
    static FILE: OnceLock<OwnedFd> = OnceLock::new();
    kept(&FILE, HELPER)
}

/// The library that a zygote loads.
pub(crate) fn zygote() -> Result<&'static OwnedFd, JailError> {
    static FILE: OnceLock<OwnedFd> = OnceLock::new();
    kept(&FILE, ZYGOTE)
}

fn kept(cell: &'static OnceLock<OwnedFd>, bytes: &[u8]) -> Result<&'static OwnedFd, JailError> {
    if let Some(file) = cell.get() {
        return Ok(file);
    }
    let made = sealed_file(bytes)?;
    Ok(cell.get_or_init(|| made))
}

/// An unnamed file that nobody can change any more.
pub(crate) fn sealed_file(bytes: &[u8]) -> Result<OwnedFd, JailError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let make = || -> std::io::Result<OwnedFd> {
        let file = match memfd_create(c"belljar", flags | MemfdFlags::EXEC) {
            // Before Linux 6.3 every such file could be executed, and nobody had to ask for it.
            Err(Errno::INVAL) => memfd_create(c"belljar", flags)?,
            other => other?,
        };
        let mut file = std::fs::File::from(file);
        file.write_all(bytes)?;
        let seals = SealFlags::SEAL | SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW;
        fcntl_add_seals(&file, seals)?;
        Ok(file.into())
    };
    make().map_err(JailError::host("keep the jail's helper in memory"))
}
