//! Snapshots as files: versioned, checksummed, only what differs from a fresh interpreter.
//!
//! ```text
//! magic          16 bytes
//! version        u32, little endian like all numbers
//! header length  u32
//! header         JSON: what it is of, and everything that is neither memory nor files
//! page numbers   u32 each, rising
//! pages          4096 bytes each, in the same order
//! files          their contents, in the header's order
//! checksum       BLAKE3 of everything before it
//! ```
//!
//! A file may come from anywhere. Its numbers are bounded before anything is allocated for them, its
//! contents are used only when the checksum is right, and its memory is a guest's: whatever is in
//! it can do what any guest can.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;

use belljar_core::json;
use belljar_core::limits::{
    MAX_ARCHIVED_BYTES, MAX_ARCHIVED_FILES, MAX_MEMORY_BYTES, MAX_MESSAGE_NESTING,
    MAX_SNAPSHOT_HEADER_BYTES, MAX_SNAPSHOT_HEADER_WEIGHT,
};
use belljar_core::{GuestImage, RuntimeType, SandboxError};
use belljar_wasm::{Frozen, FrozenHost, Interpreter, PAGE_BYTES};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::home::Home;
use crate::sessions::Durability;
use crate::snapshot::{Facts, Snapshot};
use crate::wasm::{embedded_guest, failure};
use crate::workspace_files::{self, Entry, Kind, Tree};

const MAGIC: &[u8; 16] = b"BELLJAR SNAPSHOT";

/// Changes with anything in this file, and with what the header holds.
const VERSION: u32 = 1;

const CHECKSUM_BYTES: usize = blake3::OUT_LEN;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header<Host> {
    language: RuntimeType,
    language_version: String,
    /// Absent for the plain one, and in files from before there were others.
    #[serde(default, skip_serializing_if = "GuestImage::is_plain")]
    image: GuestImage,
    /// Names the exact interpreter whose memory this is.
    guest: String,
    session_id: Option<String>,
    cells: u64,
    created_unix: u64,
    pages: u32,
    host: Host,
    files: Option<Vec<Entry>>,
}

pub(crate) fn write(
    snapshot: &Snapshot,
    path: &Path,
    durability: Durability,
) -> Result<(), SandboxError> {
    let failed = |problem: String| SandboxError::Snapshot {
        path: Some(path.to_owned()),
        problem: format!("it cannot be written: {problem}"),
        hint: None,
    };
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let temporary = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))
        .map_err(|error| failed(error.to_string()))?;
    let mut out = Hashing::new(BufWriter::new(temporary.as_file()));
    write_contents(snapshot, &mut out).map_err(|error| match error {
        WriteError::Io(error) => failed(error.to_string()),
        WriteError::Sandbox(error) => error,
    })?;
    let checksum = *out.hasher.finalize().as_bytes();
    let finished = out.inner.write_all(&checksum).and_then(|()| out.inner.flush());
    drop(out);
    finished
        .and_then(|()| match durability {
            Durability::Disk => temporary.as_file().sync_data(),
            Durability::System => Ok(()),
        })
        .and_then(|()| temporary.persist(path).map_err(|error| error.error))
        .map_err(|error| failed(error.to_string()))?;
    Ok(())
}

enum WriteError {
    Io(io::Error),
    Sandbox(SandboxError),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn write_contents(snapshot: &Snapshot, out: &mut impl Write) -> Result<(), WriteError> {
    let (mut numbers, mut pages) = (Vec::new(), Vec::new());
    snapshot
        .frozen
        .for_each_page(|at, page| {
            let number = at / PAGE_BYTES as u64;
            numbers
                .extend_from_slice(&u32::try_from(number).map_err(io::Error::other)?.to_le_bytes());
            pages.extend_from_slice(page);
            Ok(())
        })
        .map_err(|error| WriteError::Sandbox(failure(error)))?;
    let tree = snapshot.files.as_deref().map(|folder| Tree::open(folder.path())).transpose();
    let tree = tree.map_err(WriteError::Sandbox)?;
    let files = tree.as_ref().map(Tree::list).transpose().map_err(WriteError::Sandbox)?;
    let interpreter = snapshot.frozen.interpreter();
    let header = Header {
        language: snapshot.facts.language,
        language_version: interpreter.language_version().to_owned(),
        image: interpreter.image(),
        guest: interpreter.identity(),
        session_id: snapshot.facts.session_id.clone(),
        cells: snapshot.facts.cells,
        created_unix: snapshot.facts.created_unix,
        pages: u32::try_from(numbers.len() / 4).map_err(io::Error::other)?,
        host: snapshot.frozen.host(),
        files,
    };
    let json = serde_json::to_vec(&header).map_err(io::Error::other)?;
    if !is_readable(&json) {
        return Err(io::Error::other("the calls it waits for are too large to be kept").into());
    }
    out.write_all(MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    out.write_all(&u32::try_from(json.len()).map_err(io::Error::other)?.to_le_bytes())?;
    out.write_all(&json)?;
    out.write_all(&numbers)?;
    out.write_all(&pages)?;
    for entry in header.files.iter().flatten() {
        if let (Kind::File { bytes }, Some(tree)) = (&entry.kind, &tree) {
            let copied = io::copy(&mut tree.read(&entry.path)?, out)?;
            if copied != *bytes {
                return Err(io::Error::other("a file changed while it was written").into());
            }
        }
    }
    Ok(())
}

pub(crate) fn read(path: &Path, home: &Home) -> Result<Snapshot, SandboxError> {
    let refused = |problem: Problem| SandboxError::Snapshot {
        path: Some(path.to_owned()),
        problem: problem.text,
        hint: problem.hint,
    };
    let file = File::open(path).map_err(|error| refused(Problem::from(error)))?;
    let mut input = Hashing::new(BufReader::new(file));
    let header = read_header(&mut input).map_err(refused)?;
    let (language, image) = (header.language, header.image);
    // A process that has just started has to load the interpreter, which takes as long as reading.
    let (contents, guest) = std::thread::scope(|scope| {
        let load = || embedded_guest(language, image, home);
        let loading = std::thread::Builder::new().spawn_scoped(scope, load);
        let contents = read_contents(header, &mut input);
        let loaded = loading.ok().and_then(|loading| loading.join().ok());
        (contents, loaded.unwrap_or_else(load))
    });
    let contents = contents.map_err(refused)?;
    let checksum = *input.hasher.finalize().as_bytes();
    let mut rest = Vec::with_capacity(CHECKSUM_BYTES);
    (&mut input.inner)
        .take(CHECKSUM_BYTES as u64 + 1)
        .read_to_end(&mut rest)
        .map_err(|error| refused(Problem::from(error)))?;
    if rest != checksum {
        return Err(refused(Problem::damaged("its checksum is wrong")));
    }
    revive(contents, &guest?).map_err(refused)
}

struct Contents {
    header: Header<FrozenHost>,
    numbers: Vec<u32>,
    pages: Vec<u8>,
    files: Option<TempDir>,
}

fn read_contents(header: Header<FrozenHost>, input: &mut impl Read) -> Result<Contents, Problem> {
    let most = MAX_MEMORY_BYTES.div_ceil(PAGE_BYTES as u64);
    if u64::from(header.pages) > most {
        return Err(Problem::damaged("it claims more memory than there can be"));
    }
    let count = header.pages as usize;
    let numbers = read_exactly(input, count * 4)?;
    let numbers =
        numbers.chunks_exact(4).map(|n| u32::from_le_bytes([n[0], n[1], n[2], n[3]])).collect();
    let pages = read_exactly(input, count * PAGE_BYTES)?;
    let files = match &header.files {
        Some(entries) => Some(read_files(input, entries)?),
        None => None,
    };
    Ok(Contents { header, numbers, pages, files })
}

fn read_header(input: &mut impl Read) -> Result<Header<FrozenHost>, Problem> {
    let start = read_exactly(input, MAGIC.len() + 8)?;
    let (magic, numbers) = start.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(Problem::new("it is no snapshot of Belljar", None));
    }
    let number = |at: usize| {
        u32::from_le_bytes([numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3]])
    };
    let version = number(0);
    if version != VERSION {
        return Err(Problem::new(
            &format!("it has version {version} of the format, and this Belljar reads {VERSION}"),
            Some("use the version of Belljar that wrote it"),
        ));
    }
    let len = number(4) as usize;
    if len > MAX_SNAPSHOT_HEADER_BYTES {
        return Err(Problem::damaged("its header is too long"));
    }
    let json = read_exactly(input, len)?;
    if !is_readable(&json) {
        return Err(Problem::damaged("its header would take too much memory"));
    }
    serde_json::from_slice(&json)
        .map_err(|error| Problem::damaged(&format!("its header makes no sense: {error}")))
}

/// Whether a header is one that will be read again.
fn is_readable(header: &[u8]) -> bool {
    // What it waits for was a message of the guest once, and nests no deeper than any of ours.
    let weight = json::weight_within(header, MAX_MESSAGE_NESTING);
    header.len() <= MAX_SNAPSHOT_HEADER_BYTES
        && weight.is_some_and(|weight| weight <= MAX_SNAPSHOT_HEADER_WEIGHT)
}

/// Reads so many bytes, without believing that they are there.
fn read_exactly(input: &mut impl Read, len: usize) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    input.take(len as u64).read_to_end(&mut bytes)?;
    if bytes.len() == len { Ok(bytes) } else { Err(Problem::damaged("it is cut short")) }
}

fn read_files(input: &mut impl Read, entries: &[Entry]) -> Result<TempDir, Problem> {
    let total = entries.iter().fold(0u64, |sum, entry| match entry.kind {
        Kind::File { bytes } => sum.saturating_add(bytes),
        Kind::Directory | Kind::Link { .. } => sum,
    });
    if total > MAX_ARCHIVED_BYTES || entries.len() > MAX_ARCHIVED_FILES {
        return Err(Problem::damaged("it claims more files than there can be"));
    }
    let unusable = |error: SandboxError| Problem::new(&error.to_string(), None);
    let folder = workspace_files::temporary().map_err(unusable)?;
    let tree = Tree::open(folder.path()).map_err(unusable)?;
    for entry in entries {
        tree.put(entry, |file| {
            let Kind::File { bytes } = entry.kind else { return Ok(()) };
            let copied = io::copy(&mut input.take(bytes), file)?;
            if copied == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
        })?;
    }
    Ok(folder)
}

fn revive(contents: Contents, guest: &Arc<Interpreter>) -> Result<Snapshot, Problem> {
    let Contents { header, numbers, pages, files } = contents;
    if guest.identity() != header.guest {
        let problem = format!(
            "it was taken from another build of the {} guest ({}{})",
            header.language,
            header.language_version,
            if header.image.is_plain() { "" } else { ", with the data image" }
        );
        return Err(Problem::new(&problem, Some("use the version of Belljar that wrote it")));
    }
    let frozen = Frozen::from_parts(guest, header.host, &numbers, pages)
        .map_err(|error| Problem::damaged(&error.to_string()))?;
    let facts = Facts {
        language: header.language,
        session_id: header.session_id,
        cells: header.cells,
        created_unix: header.created_unix,
    };
    Ok(Snapshot { frozen, facts, files: files.map(Arc::new) })
}

/// Why a file is no snapshot.
struct Problem {
    text: String,
    hint: Option<String>,
}

impl Problem {
    fn new(text: &str, hint: Option<&str>) -> Self {
        Self { text: text.to_owned(), hint: hint.map(str::to_owned) }
    }

    fn damaged(how: &str) -> Self {
        Self::new(how, Some("take another copy of the file; this one is damaged"))
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::damaged("it is cut short"),
            io::ErrorKind::NotFound => Self::new("there is no such file", None),
            _ => Self::new(&error.to_string(), None),
        }
    }
}

/// Passes everything through, and keeps a checksum of it.
struct Hashing<T> {
    inner: T,
    hasher: blake3::Hasher,
}

impl<T> Hashing<T> {
    fn new(inner: T) -> Self {
        Self { inner, hasher: blake3::Hasher::new() }
    }
}

impl<T: Write> Write for Hashing<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Read> Read for Hashing<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}
