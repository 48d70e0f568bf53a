//! The tools for files of a session's workspace.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belljar::core::limits::MAX_CHUNK_BYTES;
use belljar::core::protocol::methods::{
    Chunk, FILES_LIST, FILES_READ, FILES_WRITE, FileEntry, FileKind, FileReadParams,
    FileWriteParams, SandboxParams,
};
use rmcp::model::CallToolResult;

use super::answers::{FileContent, FileList, Written};
use super::arguments::{self, Encoding};
use super::calls::{Caller, listed};
use super::limits::{DEFAULT_READ_BYTES, MAX_LISTED_FILES};
use super::text;
use crate::desk::Problem;

impl Caller {
    pub(super) async fn read_file(
        self,
        wanted: arguments::ReadFile,
    ) -> Result<CallToolResult, Problem> {
        let session = self.desk.sessions.get(&wanted.session_id)?;
        let params = FileReadParams {
            sandbox: session.sandbox,
            path: wanted.path.clone(),
            offset: wanted.offset,
            length: Some(wanted.length.unwrap_or(DEFAULT_READ_BYTES).min(MAX_CHUNK_BYTES)),
        };
        let Chunk { data, bytes, link } = self.ask(&session, FILES_READ, &params).await?;
        if let Some(target) = link {
            return Err(Problem::invalid(format!("{} is a link to {target:?}", wanted.path))
                .hint("read what it leads to"));
        }
        let part = STANDARD
            .decode(&data)
            .map_err(|error| Problem::failed(format!("the file came as nonsense: {error}")))?;
        let (encoding, content, taken) = written_as_text(part, data);
        let end = wanted.offset.saturating_add(taken as u64);
        let next_offset = (end < bytes && taken > 0).then_some(end);
        let told = content.clone();
        text::answer(
            told,
            &FileContent { path: wanted.path, encoding, content, bytes, next_offset },
        )
    }

    pub(super) async fn write_file(
        self,
        wanted: arguments::WriteFile,
    ) -> Result<CallToolResult, Problem> {
        let session = self.desk.sessions.get(&wanted.session_id)?;
        let data = match wanted.encoding {
            Encoding::Utf8 => wanted.content.into_bytes(),
            Encoding::Base64 => STANDARD.decode(&wanted.content).map_err(|error| {
                Problem::invalid(format!(
                    "argument `content` is no base64: {error}; nothing was written"
                ))
                .hint("leave encoding out for plain text")
            })?,
        };
        let bytes = data.len() as u64;
        if bytes > MAX_CHUNK_BYTES {
            let problem = format!("content has {bytes} bytes, and at most {MAX_CHUNK_BYTES} fit");
            return Err(Problem::invalid(format!("{problem}; nothing was written"))
                .hint("write several files, and join them with code in the session"));
        }
        let params = FileWriteParams {
            sandbox: session.sandbox,
            path: wanted.path.clone(),
            data: STANDARD.encode(data),
            append: false,
            link: None,
            directory: false,
        };
        self.ask::<()>(&session, FILES_WRITE, &params).await?;
        let told = format!("{bytes} bytes written to {}", wanted.path);
        text::answer(told, &Written { path: wanted.path, bytes })
    }

    pub(super) async fn list_files(
        self,
        wanted: arguments::OfSession,
    ) -> Result<CallToolResult, Problem> {
        let session = self.desk.sessions.get(&wanted.session_id)?;
        let params = SandboxParams { sandbox: session.sandbox };
        let mut files: Vec<FileEntry> = self.ask(&session, FILES_LIST, &params).await?;
        let total = files.len();
        files.truncate(MAX_LISTED_FILES);
        let lines = files.iter().map(|file| match file.kind {
            FileKind::File => format!("{} ({} bytes)", file.path, file.bytes),
            FileKind::Directory => format!("{}/", file.path),
            FileKind::Link => format!("{} (a link)", file.path),
        });
        let mut told = listed(lines, "no files");
        if total > files.len() {
            told.push_str(&format!("\n… and {} more", total - files.len()));
        }
        text::answer(told, &FileList { files, total })
    }
}

/// Text as it is, if it is text; `base64` is the same bytes. A character that is cut at the end is
/// left for the next part.
fn written_as_text(bytes: Vec<u8>, base64: String) -> (Encoding, String, usize) {
    let taken = bytes.len();
    match String::from_utf8(bytes) {
        Ok(text) => (Encoding::Utf8, text, taken),
        Err(error) => {
            let (whole, cut) = (error.utf8_error().valid_up_to(), error.utf8_error().error_len());
            let mut bytes = error.into_bytes();
            bytes.truncate(whole);
            match String::from_utf8(bytes) {
                Ok(text) if cut.is_none() && whole > 0 => (Encoding::Utf8, text, whole),
                Ok(_) | Err(_) => (Encoding::Base64, base64, taken),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_text_when_they_can_be() {
        let read = |bytes: &[u8]| written_as_text(bytes.to_vec(), "64".to_owned());
        assert_eq!(read("añ".as_bytes()), (Encoding::Utf8, "añ".to_owned(), 3));
        assert_eq!(read(b"a\xc3"), (Encoding::Utf8, "a".to_owned(), 1));
        assert_eq!(read(b"\xc3"), (Encoding::Base64, "64".to_owned(), 1));
        assert_eq!(read(b"a\xffb"), (Encoding::Base64, "64".to_owned(), 3));
        assert_eq!(read(b""), (Encoding::Utf8, String::new(), 0));
    }
}
