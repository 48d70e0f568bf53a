//! Files of a sandbox there: sent before code runs, and what it did with them brought here.

use std::collections::BTreeMap;
use std::path::Path;

use belljar_core::SandboxError;
use belljar_core::protocol::methods::FileKind;
use serde_json::{Value, json};
use ureq::http::Method;

use super::service::{AGENT_PORT, Remote, refused};
use crate::files::WorkspaceFiles;

/// Where code works there.
const HOME: &str = "/home/user";
/// Levels of directories that are looked at.
const DEPTH: u32 = 64;
/// What is sent or brought at once.
const MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// What there was: size and time of each file, by its path below the home.
pub(super) type Listing = BTreeMap<String, (String, String)>;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) created: Vec<String>,
    pub(super) modified: Vec<String>,
    pub(super) deleted: Vec<String>,
}

impl Changes {
    pub(super) fn between(before: &Listing, after: &Listing) -> Self {
        let new = after.keys().filter(|path| !before.contains_key(*path));
        let gone = before.keys().filter(|path| !after.contains_key(*path));
        let other =
            after.iter().filter(|(path, now)| before.get(*path).is_some_and(|it| it != *now));
        Self {
            created: new.cloned().collect(),
            modified: other.map(|(path, _)| path.clone()).collect(),
            deleted: gone.cloned().collect(),
        }
    }
}

/// The files there are now. Links are told, and not followed.
pub(super) fn list(remote: &Remote) -> Result<Listing, SandboxError> {
    let body = json!({ "path": HOME, "depth": DEPTH }).to_string().into_bytes();
    let path = "/filesystem.Filesystem/ListDir";
    let answer = remote.ask(Method::POST, AGENT_PORT, path, ("application/json", body))?;
    if answer.status != 200 {
        return Err(refused(answer.status, &answer, "the files are not known"));
    }
    let listed = answer.json().unwrap_or_default();
    let entries = listed["entries"].as_array().into_iter().flatten();
    let files =
        entries.filter(|it| it["type"] != "FILE_TYPE_DIRECTORY" && it["isSymlink"].is_null());
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Ok(files
        .filter_map(|it| {
            let path = it["path"].as_str()?.strip_prefix(HOME)?.strip_prefix('/')?;
            is_inside(path)
                .then(|| (path.to_owned(), (text(&it["size"]), text(&it["modifiedTime"]))))
        })
        .collect())
}

/// A service is believed as little as a guest: no name leads anywhere else.
fn is_inside(path: &str) -> bool {
    let strange = |part: &str| matches!(part, "" | "." | "..");
    !path.split('/').any(strange) && !path.contains('\0')
}

/// Sends what is in a workspace.
pub(super) fn send(remote: &Remote, workspace: &Path) -> Result<(), SandboxError> {
    let files = WorkspaceFiles::open(workspace)?;
    let mut left = MAX_BYTES;
    for entry in files.list()? {
        if entry.kind != FileKind::File {
            continue;
        }
        left = left.checked_sub(entry.bytes).ok_or_else(|| too_much(workspace))?;
        let (data, _) = files.read(&entry.path, 0, entry.bytes)?;
        let path = format!("/files?path={}", encoded(&entry.path));
        let body = ("application/octet-stream", data);
        let answer = remote.ask(Method::POST, AGENT_PORT, &path, body)?;
        if answer.status != 200 {
            return Err(refused(answer.status, &answer, "nothing was run"));
        }
    }
    Ok(())
}

/// Does here what the code did there.
pub(super) fn fetch(
    remote: &Remote,
    workspace: &Path,
    changes: &Changes,
) -> Result<(), SandboxError> {
    let files = WorkspaceFiles::open(workspace)?;
    for path in &changes.deleted {
        files.remove(path)?;
    }
    let mut left = MAX_BYTES;
    for path in changes.created.iter().chain(&changes.modified) {
        let from = format!("/files?path={}", encoded(path));
        let answer = remote.ask(Method::GET, AGENT_PORT, &from, ("text/plain", Vec::new()))?;
        if answer.status != 200 {
            return Err(refused(answer.status, &answer, "the code ran; not all files are here"));
        }
        let length = u64::try_from(answer.bytes.len()).unwrap_or(u64::MAX);
        left = left.checked_sub(length).ok_or_else(|| too_much(workspace))?;
        files.write(path, &answer.bytes, false)?;
    }
    Ok(())
}

fn too_much(workspace: &Path) -> SandboxError {
    SandboxError::Workspace {
        path: workspace.to_owned(),
        problem: format!("more than {MAX_BYTES} bytes cannot be sent or brought"),
        hint: None,
    }
}

fn encoded(path: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(byte);
    path.bytes()
        .map(
            |byte| {
                if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
            },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_what_differs() {
        let listing = |files: &[(&str, &str)]| -> Listing {
            files
                .iter()
                .map(|(p, t)| ((*p).to_owned(), ("1".to_owned(), (*t).to_owned())))
                .collect()
        };
        let before = listing(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let after = listing(&[("a", "1"), ("b", "2"), ("d", "1")]);
        let changes = Changes::between(&before, &after);
        assert_eq!(
            (&*changes.created, &*changes.modified),
            (&["d".to_owned()][..], &["b".to_owned()][..])
        );
        assert_eq!(changes.deleted, ["c"]);
    }

    #[test]
    fn names_that_lead_elsewhere_are_none() {
        assert!(is_inside("a/b.txt") && is_inside("..a"));
        for bad in ["../a", "a/../../b", "", "a//b", "/etc/passwd", "a\0"] {
            assert!(!is_inside(bad), "{bad}");
        }
        assert_eq!(encoded("a b/ř?&"), "a%20b/%C5%99%3F%26");
    }
}
