//! Snapshot files taken apart, so that tests can put them together wrongly.

use std::fs;
use std::path::Path;

use serde_json::Value;

const MAGIC_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 32;

/// The parts of a snapshot file. Writing it makes lengths and checksum fit.
#[derive(Debug, Clone)]
pub struct SnapshotFile {
    /// Magic and version.
    pub start: Vec<u8>,
    /// The header.
    pub header: Value,
    /// Page numbers, pages and files.
    pub body: Vec<u8>,
}

impl SnapshotFile {
    /// Takes a file apart.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        let bytes = fs::read(path).expect("a snapshot");
        let (start, rest) = bytes.split_at(MAGIC_BYTES + 4);
        let (length, rest) = rest.split_at(4);
        let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
        let (header, rest) = rest.split_at(length);
        Self {
            start: start.to_owned(),
            header: serde_json::from_slice(header).expect("JSON"),
            body: rest[..rest.len() - CHECKSUM_BYTES].to_owned(),
        }
    }

    /// Where in a written file one part ends and the next begins.
    #[must_use]
    pub fn boundaries(&self) -> Vec<usize> {
        let pages = self.header["pages"].as_u64().and_then(|pages| usize::try_from(pages).ok());
        let pages = pages.expect("a number of pages");
        let header = MAGIC_BYTES + 8 + self.header.to_string().len();
        let body = header + self.body.len();
        let numbers = header + 4 * pages;
        let memory = numbers + 4096 * pages;
        vec![0, MAGIC_BYTES, MAGIC_BYTES + 4, MAGIC_BYTES + 8, header, numbers, memory, body]
    }

    /// The whole file, as it should be.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let header = self.header.to_string();
        let length = u32::try_from(header.len()).expect("a short header");
        let parts: [&[u8]; 4] = [&self.start, &length.to_le_bytes(), header.as_bytes(), &self.body];
        let mut bytes = parts.concat();
        let checksum = blake3::hash(&bytes);
        bytes.extend_from_slice(checksum.as_bytes());
        bytes
    }

    /// Writes it.
    pub fn write(&self, path: &Path) {
        fs::write(path, self.bytes()).expect("a file");
    }
}
