//! Watching directories: what the kernel tells about them, in the agent's words.

use std::collections::{HashMap, VecDeque};
use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::response::Response;
use futures_util::stream as streams;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::E2b;
use super::connect::{self, Code, Refusal};
use super::entries;
use super::filesystem::inside;
use super::place::{self, Inside, Root};
use super::registry::{Sandbox, random};
use super::shares::Share;

pub(super) const PING_HEADER: &str = "keepalive-ping-interval";
/// More of them wait for the next look.
const MAX_EVENTS_AT_ONCE: usize = 1000;
/// How often something is told while nothing happens, unless the client wants it otherwise.
const PING_SECONDS: u64 = 90;
/// Events that wait for whoever watches; older ones are forgotten.
const MAX_EVENTS: usize = 10_000;
/// Directories that one watcher looks at.
const MAX_DIRECTORIES: usize = 4096;
/// Watchers of one sandbox.
const MAX_WATCHERS: usize = 64;
/// Watchers of all: the system has few to give.
pub(super) const MAX_ALL: usize = 100;
/// How often it is looked whether something happened.
const LOOK: Duration = Duration::from_millis(50);
/// Random bytes of a watcher's name.
const ID_BYTES: usize = 8;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Watch {
    #[serde(default)]
    path: String,
    #[serde(default)]
    recursive: bool,
    #[serde(default)]
    include_entry: bool,
}

/// Those of one sandbox that are asked now and then.
#[derive(Default)]
pub(super) struct Watchers(Mutex<HashMap<String, Watching>>);

struct Watching {
    seen: Arc<Seen>,
    _end: DropGuard,
}

/// What was seen and not told yet.
#[derive(Default)]
struct Seen {
    events: Mutex<VecDeque<Value>>,
    more: Notify,
}

impl Seen {
    fn add(&self, event: Value) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if events.len() >= MAX_EVENTS {
            events.pop_front();
        }
        events.push_back(event);
        self.more.notify_one();
    }

    fn take(&self) -> VecDeque<Value> {
        std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Watchers {
    pub(super) fn clear(&self) {
        self.known().clear();
    }

    pub(super) fn events(&self, id: &str) -> Result<Value, Refusal> {
        let known = self.known();
        let watching = known.get(id).ok_or_else(unknown)?;
        Ok(json!({ "events": watching.seen.take() }))
    }

    pub(super) fn remove(&self, id: &str) -> Result<Value, Refusal> {
        self.known().remove(id).ok_or_else(unknown)?;
        Ok(json!({}))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Watching>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown() -> Refusal {
    Refusal::new(Code::NotFound, "there is no such watcher")
}

pub(super) async fn create(e2b: &E2b, sandbox: &Sandbox, wanted: Watch) -> Result<Value, Refusal> {
    if sandbox.watchers.known().len() >= MAX_WATCHERS {
        let problem = format!("there are {MAX_WATCHERS} watchers, and no more may be");
        return Err(Refusal::new(Code::ResourceExhausted, problem));
    }
    let (seen, end) = begin(e2b, sandbox, wanted).await?;
    let id = random(ID_BYTES).map_err(|error| Refusal::new(Code::Internal, error.message))?;
    sandbox.watchers.known().insert(id.clone(), Watching { seen, _end: end });
    Ok(json!({ "watcherId": id }))
}

pub(super) async fn stream(
    e2b: &E2b,
    sandbox: &Sandbox,
    wanted: Watch,
    interval: Option<u64>,
) -> Response {
    let (seen, end) = match begin(e2b, sandbox, wanted).await {
        Ok(begun) => begun,
        Err(refusal) => return connect::refused_stream(refusal),
    };
    let interval = Duration::from_secs(interval.unwrap_or(PING_SECONDS).max(1));
    let alive = sandbox.alive();
    let waiting = VecDeque::from([json!({ "start": {} })]);
    let told = streams::unfold(
        (seen, end, alive, waiting),
        move |(seen, end, alive, mut waiting)| async move {
            loop {
                if let Some(next) = waiting.pop_front() {
                    return Some((Ok(next), (seen, end, alive, waiting)));
                }
                tokio::select! {
                    () = alive.cancelled() => return None,
                    () = seen.more.notified() => {}
                    () = sleep(interval) => waiting.push_back(json!({ "keepalive": {} })),
                }
                waiting.extend(seen.take().into_iter().map(|it| json!({ "filesystem": it })));
            }
        },
    );
    connect::stream(told)
}

/// Begins to look; it ends when the guard is dropped, or the sandbox stops.
async fn begin(
    e2b: &E2b,
    sandbox: &Sandbox,
    wanted: Watch,
) -> Result<(Arc<Seen>, DropGuard), Refusal> {
    let share = e2b.share(&e2b.watched, &sandbox.owner).ok_or_else(|| {
        Refusal::new(Code::ResourceExhausted, "there are as many watchers of this key as may be")
    })?;
    let path = inside(&wanted.path)?;
    let (worker, id) = (e2b.directory_of(sandbox.slot()), sandbox.id.clone());
    let made = tokio::task::spawn_blocking(move || {
        let root = place::open(&worker, &id)?;
        Looking::new(root, path, wanted.recursive, wanted.include_entry)
    });
    let looking = made.await.map_err(io::Error::other).flatten()?;
    let (seen, end) = (Arc::new(Seen::default()), sandbox.alive().child_token());
    tokio::spawn(looking.look(Arc::clone(&seen), end.clone(), share));
    Ok((seen, end.drop_guard()))
}

/// An open watch on some directories.
struct Looking {
    root: Root,
    top: Inside,
    recursive: bool,
    with_entry: bool,
    kernel: OwnedFd,
    directories: HashMap<i32, Inside>,
}

impl Looking {
    fn new(root: Root, top: Inside, recursive: bool, with_entry: bool) -> io::Result<Self> {
        let kernel = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let directories = HashMap::new();
        let mut looking = Self { root, top, recursive, with_entry, kernel, directories };
        looking.add(&looking.top.clone())?;
        if recursive {
            looking.add_below(&looking.top.clone());
        }
        Ok(looking)
    }

    fn add(&mut self, path: &Inside) -> io::Result<()> {
        if self.directories.len() >= MAX_DIRECTORIES {
            return Err(io::Error::new(
                io::ErrorKind::QuotaExceeded,
                format!("more than {MAX_DIRECTORIES} directories"),
            ));
        }
        let directory = self.root.directory(path)?;
        // By descriptor: what is watched is what was opened, whatever is renamed meanwhile.
        let name = CString::new(format!("/proc/self/fd/{}", directory.as_raw_fd()))?;
        let flags = WatchFlags::CREATE
            | WatchFlags::MODIFY
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ATTRIB
            | WatchFlags::ONLYDIR;
        let number = inotify::add_watch(&self.kernel, name, flags)?;
        self.directories.insert(number, path.clone());
        Ok(())
    }

    fn add_below(&mut self, path: &Inside) {
        // What cannot be read or has gone is not watched.
        let below = entries::list(&self.root, path, u32::MAX).unwrap_or_default();
        for entry in below {
            let is_directory =
                entry["type"] == "FILE_TYPE_DIRECTORY" && entry["isSymlink"].is_null();
            if is_directory
                && let Ok(path) = Inside::new(entry["path"].as_str().unwrap_or_default())
            {
                let _ = self.add(&path);
            }
        }
    }

    async fn look(mut self, seen: Arc<Seen>, end: CancellationToken, _place: Share) {
        loop {
            tokio::select! {
                () = end.cancelled() => return,
                () = sleep(LOOK) => {}
            }
            let seen = Arc::clone(&seen);
            // What appears may be large, and is looked at by whoever may wait for a disk.
            let looked = tokio::task::spawn_blocking(move || {
                for (directory, name, kind) in self.read() {
                    self.tell(&seen, directory, &name, kind);
                }
                self
            });
            match looked.await {
                Ok(again) => self = again,
                Err(_) => return,
            }
        }
    }

    fn read(&self) -> Vec<(i32, String, ReadFlags)> {
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = Reader::new(&self.kernel, &mut buffer);
        let mut events = Vec::new();
        while events.len() < MAX_EVENTS_AT_ONCE || !reader.is_buffer_empty() {
            let Ok(event) = reader.next() else { break };
            let name = event.file_name().and_then(|name| name.to_str().ok());
            events.push((event.wd(), name.unwrap_or_default().to_owned(), event.events()));
        }
        events
    }

    fn tell(&mut self, seen: &Seen, directory: i32, name: &str, kind: ReadFlags) {
        if kind.contains(ReadFlags::IGNORED) {
            self.directories.remove(&directory);
            return;
        }
        let Some(parent) = self.directories.get(&directory).filter(|_| !name.is_empty()) else {
            return;
        };
        let path = parent.child(name);
        let kinds = [
            (ReadFlags::CREATE | ReadFlags::MOVED_TO, "EVENT_TYPE_CREATE"),
            (ReadFlags::MODIFY, "EVENT_TYPE_WRITE"),
            (ReadFlags::DELETE, "EVENT_TYPE_REMOVE"),
            (ReadFlags::MOVED_FROM, "EVENT_TYPE_RENAME"),
            (ReadFlags::ATTRIB, "EVENT_TYPE_CHMOD"),
        ];
        let word = kinds.into_iter().find(|(flags, _)| kind.intersects(*flags));
        let Some((flags, word)) = word else { return };
        let relative = path.as_str().strip_prefix(self.top.as_str()).unwrap_or(path.as_str());
        let mut event = json!({ "name": relative.trim_start_matches('/'), "type": word });
        if self.with_entry
            && let Ok(entry) = entries::entry(&self.root, &path)
        {
            event["entry"] = entry;
        }
        seen.add(event);
        let appeared = flags.contains(ReadFlags::CREATE) && kind.contains(ReadFlags::ISDIR);
        if self.recursive && appeared && self.add(&path).is_ok() {
            self.add_below(&path);
        }
    }
}
