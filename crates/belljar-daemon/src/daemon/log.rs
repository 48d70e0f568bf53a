//! The daemon's log: a JSON object a line, in a file that does not grow without end.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

/// Then the log begins anew, and one older file is kept.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// A log file and its predecessor.
pub(super) struct Log(Mutex<Open>);

struct Open {
    path: PathBuf,
    file: File,
    bytes: u64,
    max_bytes: u64,
}

impl Log {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::with(path, MAX_BYTES)
    }

    fn with(path: &Path, max_bytes: u64) -> io::Result<Self> {
        let file = opened(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self(Mutex::new(Open { path: path.to_owned(), file, bytes, max_bytes })))
    }
}

/// The name of the older file.
#[must_use]
pub fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

fn opened(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

impl Open {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.max_bytes {
            std::fs::rename(&self.path, older(&self.path))?;
            self.file = opened(&self.path)?;
            self.bytes = 0;
        }
        self.file.write_all(line)?;
        self.bytes += line.len() as u64;
        Ok(())
    }
}

impl Write for &Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_begins_anew_and_one_older_file_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = Log::with(&path, 10).unwrap();
        for line in ["one\n", "two\n", "three\n", "four\n"] {
            (&log).write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "four\n");
        assert_eq!(std::fs::read_to_string(older(&path)).unwrap(), "three\n");
    }
}
