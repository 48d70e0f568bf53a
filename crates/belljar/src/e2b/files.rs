//! Files of a sandbox there: sent before code runs, and what it did with them brought here.

use std::collections::BTreeMap;
use std::path::Path;

use belljar_core::SandboxError;
use belljar_core::protocol::methods::{FileEntry, FileKind};
use serde_json::{Value, json};
use ureq::http::Method;

use super::service::{AGENT_PORT, Remote, refused};
use crate::files::WorkspaceFiles;
use crate::workspace_files::leaves;

/// Where code works there.
const HOME: &str = "/home/user";
/// Levels of directories that are looked at.
const DEPTH: u32 = 64;
/// What is sent or brought at once.
const MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// What there was, by its path below the home.
pub(super) type Listing = BTreeMap<String, Seen>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    File {
        size: String,
        modified: String,
    },
    /// A link, and where it leads from where it is.
    Link(String),
}

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

/// The files there are now. Links are told, and not followed; those that lead elsewhere are left out.
pub(super) fn list(remote: &Remote) -> Result<Listing, SandboxError> {
    let asked = json!({ "path": HOME, "depth": DEPTH });
    let listed = call(remote, "ListDir", &asked, "the files are not known")?;
    let entries = listed["entries"].as_array().into_iter().flatten();
    Ok(entries
        .filter_map(|entry| {
            let path = entry["path"].as_str().and_then(below_home)?;
            Some((path.to_owned(), seen(path, entry)?))
        })
        .collect())
}

fn seen(path: &str, entry: &Value) -> Option<Seen> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(target) = entry["symlinkTarget"].as_str() {
        return from_here(path, target).map(Seen::Link);
    }
    let is_file = entry["type"] == "FILE_TYPE_FILE";
    let (size, modified) = (text(&entry["size"]), text(&entry["modifiedTime"]));
    is_file.then_some(Seen::File { size, modified })
}

fn below_home(path: &str) -> Option<&str> {
    path.strip_prefix(HOME)?.strip_prefix('/').filter(|path| is_inside(path))
}

/// Where a link leads, told from its own directory; services tell it from their root.
fn from_here(path: &str, target: &str) -> Option<String> {
    let target = match below_home(target) {
        Some(below) => format!("{}{below}", "../".repeat(path.matches('/').count())),
        None => target.to_owned(),
    };
    (!leaves(Path::new(path), Path::new(&target))).then_some(target)
}

fn call(
    remote: &Remote,
    method: &str,
    asked: &Value,
    survives: &str,
) -> Result<Value, SandboxError> {
    let path = format!("/filesystem.Filesystem/{method}");
    let body = ("application/json", asked.to_string().into_bytes());
    let answer = remote.ask(Method::POST, AGENT_PORT, &path, body)?;
    match answer.status {
        200 => Ok(answer.json().unwrap_or_default()),
        status => Err(refused(status, &answer, survives)),
    }
}

/// A service is believed as little as a guest: no name leads anywhere else.
fn is_inside(path: &str) -> bool {
    let strange = |part: &str| matches!(part, "" | "." | "..");
    !path.split('/').any(strange) && !path.contains('\0')
}

/// Sends what is in a workspace, without links: there is no way to make one.
pub(super) fn send(remote: &Remote, workspace: &Path) -> Result<(), SandboxError> {
    let files = WorkspaceFiles::open(workspace)?;
    let entries = files.list()?;
    let mut left = MAX_BYTES;
    for (at, entry) in entries.iter().enumerate() {
        match entry.kind {
            FileKind::File => {
                left = left.checked_sub(entry.bytes).ok_or_else(|| too_much(workspace))?;
                let (data, _) = files.read(&entry.path, 0, entry.bytes)?;
                let path = format!("/files?path={}", encoded(&entry.path));
                let body = ("application/octet-stream", data);
                let answer = remote.ask(Method::POST, AGENT_PORT, &path, body)?;
                if answer.status != 200 {
                    return Err(refused(answer.status, &answer, "nothing was run"));
                }
            }
            // Those with something in them are made with it.
            FileKind::Directory if !has_file_below(&entries[at..], &entry.path) => {
                let asked = json!({ "path": format!("{HOME}/{}", entry.path) });
                call(remote, "MakeDir", &asked, "nothing was run")?;
            }
            FileKind::Directory | FileKind::Link => {}
        }
    }
    Ok(())
}

/// The entries come in the order of their paths, so what is in a directory comes right after it.
fn has_file_below(entries: &[FileEntry], folder: &str) -> bool {
    let below = |it: &&FileEntry| {
        it.path.strip_prefix(folder).is_some_and(|it| it.is_empty() || it.starts_with('/'))
    };
    entries.iter().take_while(below).any(|it| it.kind == FileKind::File)
}

/// Does here what the code did there.
pub(super) fn fetch(
    remote: &Remote,
    workspace: &Path,
    changes: &Changes,
    now: &Listing,
) -> Result<(), SandboxError> {
    let files = WorkspaceFiles::open(workspace)?;
    for path in &changes.deleted {
        files.remove(path)?;
    }
    let mut left = MAX_BYTES;
    for path in changes.created.iter().chain(&changes.modified) {
        if let Some(Seen::Link(target)) = now.get(path) {
            files.make_link(path, target)?;
            continue;
        }
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
                .map(|(path, modified)| {
                    let (size, modified) = ("1".to_owned(), (*modified).to_owned());
                    ((*path).to_owned(), Seen::File { size, modified })
                })
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
    fn links_are_told_from_where_they_are_and_none_leads_outside() {
        assert_eq!(from_here("d/up", "/home/user/a").as_deref(), Some("../a"));
        assert_eq!(from_here("l", "/home/user/d/a").as_deref(), Some("d/a"));
        assert_eq!(from_here("d/up", "../a").as_deref(), Some("../a"));
        for bad in ["/etc/passwd", "/home/user/../x", "../../x", "/home/user"] {
            assert_eq!(from_here("d/up", bad), None, "{bad}");
        }
    }

    #[test]
    fn directories_with_files_need_not_be_made() {
        let entry = |path: &str, kind| FileEntry { path: path.to_owned(), kind, bytes: 0 };
        let (folder, file) = (FileKind::Directory, FileKind::File);
        let all = [entry("a", folder), entry("a/b", folder), entry("a/b/c", file)];
        assert!(has_file_below(&all, "a") && has_file_below(&all[1..], "a/b"));
        assert!(!has_file_below(&[entry("a", folder), entry("ab", file)], "a"));
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
