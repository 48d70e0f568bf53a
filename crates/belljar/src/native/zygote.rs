//! A warm interpreter in a jail, which forks one for each execution; each fork is a jail of its own.
//!
//! The zygote runs no foreign code, but what it says is heard as carefully as anything from a jail.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use belljar_core::protocol::{self, Id, Message};
use belljar_jail::{Descriptors, JailPlan, Jailed};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use serde::Deserialize;

use super::jail::pipe;
use crate::process::pipes::Lines;

/// How long it may take to load everything.
const LOADING: Duration = Duration::from_secs(20);

/// How long a fork may take, or the end of one that was killed. Milliseconds do.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the whole jail may take to end.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// Of what it says when it cannot start.
const MAX_COMPLAINT_BYTES: u64 = 16 * 1024;

/// Ends of forks that are kept until they are asked for: more than there can be.
const MAX_EXITS: usize = 16;

/// Descriptors of a fork.
const FORK_DESCRIPTORS: usize = 5;

/// A zygote that is ready. Dropping it ends it and all its forks.
pub(super) struct Zygote {
    jail: Jailed,
    control: Lines<UnixStream>,
    workspace: PathBuf,
    origins: Origins,
    last_id: u64,
    ready: bool,
    /// Nothing more can be had of it.
    lost: bool,
    /// The last request for a fork, and its answer. There is one at a time.
    asked: u64,
    answer: Option<Result<i32, String>>,
    /// Forks that have ended and were not asked for yet.
    exits: BTreeMap<i32, Exit>,
    /// Whether a fork runs. There is one at a time: their limits are those of the zygote.
    busy: bool,
    spare: Option<Begun>,
    proven: bool,
}

/// A fork that is asked for: the host's ends.
struct Begun {
    protocol: UnixStream,
    stdout: OwnedFd,
    stderr: OwnedFd,
    status: OwnedFd,
    workspace: Origin,
}

/// A fork that waits for its first request.
pub(super) struct Fork {
    pub(super) pid: i32,
    pub(super) protocol: UnixStream,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    /// Where its first process writes how the program ended.
    pub(super) status: OwnedFd,
}

/// How the first process of a fork ended.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Exit {
    pub(super) pid: i32,
    pub(super) code: Option<i32>,
}

#[derive(Deserialize)]
struct Spawned {
    pid: i32,
}

/// Device and number of a file: what a mount holds, whatever its path leads to later.
type Origin = Option<(u64, u64)>;
type Origins = Vec<Origin>;

fn origin(path: &Path) -> Origin {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

fn origins(plan: &JailPlan) -> Origins {
    plan.mounts.iter().map(|mount| &mount.host).chain([&plan.program]).map(|p| origin(p)).collect()
}

impl Zygote {
    /// Starts one and waits until it is ready. The error says, for the log, why there is none.
    pub(super) fn start(plan: &JailPlan, workspace: &Path) -> Result<Self, String> {
        let (control, stderr, descriptors) = descriptors().map_err(|error| error.to_string())?;
        let origins = origins(plan);
        let jail = Jailed::spawn(plan, descriptors).map_err(|error| error.to_string())?;
        let mut zygote = Self {
            jail,
            control: Lines::new(control),
            workspace: workspace.to_owned(),
            origins,
            last_id: 0,
            ready: false,
            lost: false,
            asked: 0,
            answer: None,
            exits: BTreeMap::new(),
            busy: false,
            spare: None,
            proven: false,
        };
        if zygote.hear(LOADING, |zygote| zygote.ready.then_some(())).is_some() {
            return Ok(zygote);
        }
        zygote.end();
        Err(format!("it was not ready: {}", last_words(stderr)))
    }

    /// Whether it still is what a new one would be.
    pub(super) fn is_current(&mut self, plan: &JailPlan) -> bool {
        self.hear(Duration::ZERO, |_| Some(()));
        !self.lost && self.origins == origins(plan)
    }

    /// Whether a fork of it has ever worked.
    pub(super) const fn is_proven(&self) -> bool {
        self.proven
    }

    pub(super) const fn is_busy(&self) -> bool {
        self.busy
    }

    pub(super) const fn jail(&self) -> &Jailed {
        &self.jail
    }

    /// A fork nobody has spoken to: the spare one, or a new one.
    pub(super) fn fork(&mut self) -> Result<Fork, String> {
        let spare = self.spare.take().and_then(|spare| {
            let usable = spare.workspace == origin(&self.workspace);
            let spare = self.finish(spare).ok()?;
            if usable {
                return Some(spare);
            }
            self.kill(spare.pid);
            None
        });
        let fork = match spare {
            Some(spare) => spare,
            None => {
                let (ours, theirs) = self.ends()?;
                let begun = self.begin(ours, &theirs)?;
                self.finish(begun)?
            }
        };
        (self.busy, self.proven) = (true, true);
        Ok(fork)
    }

    /// The running fork has ended.
    pub(super) fn release(&mut self) {
        self.busy = false;
    }

    /// Ends the running fork, unless it has ended, and has the next one made while nobody waits for
    /// it.
    pub(super) fn replace(&mut self, running: Option<i32>) -> Option<Exit> {
        if let Some(pid) = running {
            self.tell("kill", pid);
        }
        if !self.lost && self.spare.is_none() {
            // While it dies. Without one the next execution makes its own, or finds out what is
            // wrong.
            let next = self.ends().and_then(|(ours, theirs)| self.begin(ours, &theirs));
            self.spare = next.ok();
        }
        let exit = running.and_then(|pid| self.await_end(pid));
        self.busy = false;
        exit
    }

    /// Interrupts what a fork does.
    pub(super) fn interrupt(&mut self, pid: i32) {
        self.tell("interrupt", pid);
    }

    /// How a fork ended, if it does so in time. `Err` when nobody will know any more.
    pub(super) fn wait(&mut self, pid: i32, patience: Duration) -> Result<Option<Exit>, Lost> {
        match self.hear(patience, |zygote| zygote.exits.remove(&pid)) {
            None if self.lost => Err(Lost),
            exit => Ok(exit),
        }
    }

    /// Ends a fork with everything it has started; with the whole jail where the zygote does not
    /// do as it is told.
    pub(super) fn kill(&mut self, pid: i32) -> Option<Exit> {
        self.tell("kill", pid);
        self.await_end(pid)
    }

    fn await_end(&mut self, pid: i32) -> Option<Exit> {
        if let Ok(Some(exit)) = self.wait(pid, PATIENCE) {
            return Some(exit);
        }
        self.end();
        None
    }

    /// Ends everything.
    pub(super) fn end(&mut self) {
        self.lost = true;
        self.spare = None;
        self.jail.kill();
        let until = Instant::now() + LAST_PATIENCE;
        while matches!(self.jail.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn tell(&mut self, method: &str, pid: i32) {
        let params = serde_json::json!({ "pid": pid });
        if self.send(method, &params, &[]).is_err() {
            self.lost = true;
        }
    }

    /// Both ends of everything a fork gets.
    fn ends(&self) -> Result<(Begun, [OwnedFd; FORK_DESCRIPTORS]), String> {
        let failed = |error: io::Error| format!("no descriptors: {error}");
        let (protocol, their_protocol) = UnixStream::pair().map_err(failed)?;
        let (stdout, their_stdout) = pipe().map_err(failed)?;
        let (stderr, their_stderr) = pipe().map_err(failed)?;
        let (status, their_status) = pipe().map_err(failed)?;
        rustix::io::ioctl_fionbio(&status, true).map_err(|error| failed(error.into()))?;
        let workspace = origin(&self.workspace);
        let mount =
            self.jail.take_directory(&self.workspace, true).map_err(|error| error.to_string())?;
        let theirs = [their_protocol.into(), their_stdout, their_stderr, their_status, mount];
        Ok((Begun { protocol, stdout, stderr, status, workspace }, theirs))
    }

    fn begin(
        &mut self,
        ours: Begun,
        theirs: &[OwnedFd; FORK_DESCRIPTORS],
    ) -> Result<Begun, String> {
        let theirs = theirs.each_ref().map(AsFd::as_fd);
        let id = self.send("spawn", &serde_json::json!({}), &theirs).map_err(|error| {
            self.lost = true;
            error.to_string()
        })?;
        (self.asked, self.answer) = (id, None);
        Ok(ours)
    }

    fn finish(&mut self, begun: Begun) -> Result<Fork, String> {
        let Some(answer) = self.hear(PATIENCE, |zygote| zygote.answer.take()) else {
            self.end();
            return Err("it does not answer".to_owned());
        };
        let Begun { protocol, stdout, stderr, status, .. } = begun;
        let pid = answer?;
        if speaks(&protocol) {
            return Ok(Fork { pid, protocol, stdout, stderr, status });
        }
        self.kill(pid);
        Err(format!("its fork does not live: {}", last_words(stderr)))
    }

    fn send(
        &mut self,
        method: &str,
        params: &serde_json::Value,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<u64> {
        self.last_id += 1;
        let line = protocol::request(&Id::Number(self.last_id), method, params)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FORK_DESCRIPTORS))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !rights.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // A zygote that has not read so many short lines does not live.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let parts = [IoSlice::new(&line)];
        let sent = rustix::net::sendmsg(self.control.socket(), &parts, &mut rights, flags)?;
        if sent == line.len() { Ok(self.last_id) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// Takes in what it says until that has what is wanted, or it is too late.
    fn hear<T>(
        &mut self,
        patience: Duration,
        wanted: impl Fn(&mut Self) -> Option<T>,
    ) -> Option<T> {
        let until = Instant::now() + patience;
        loop {
            self.take_in();
            let found = wanted(self);
            let left = until.saturating_duration_since(Instant::now());
            if found.is_some() || self.lost || left.is_zero() {
                return found;
            }
            let mut fds = [PollFd::new(self.control.socket(), PollFlags::IN)];
            // Whatever it says, everything is looked at next.
            let _ = rustix::event::poll(&mut fds, Timespec::try_from(left).ok().as_ref());
        }
    }

    fn take_in(&mut self) {
        loop {
            match self.control.next() {
                Ok(Some(line)) => self.note(&line),
                Ok(None) => return,
                Err(_) => {
                    self.lost = true;
                    return;
                }
            }
        }
    }

    fn note(&mut self, line: &[u8]) {
        match Message::parse(line) {
            Ok(Message::Response { id: Id::Number(id), outcome }) if id == self.asked => {
                let spawned = outcome.map_err(|error| error.message).and_then(|result| {
                    serde_json::from_str(result.get()).map_err(|error| error.to_string())
                });
                self.answer = Some(spawned.map(|spawned: Spawned| spawned.pid));
            }
            // That a signal was sent, or that there was nobody to send it to.
            Ok(Message::Response { .. }) => {}
            Ok(Message::Notification { method, params }) => match &*method {
                "ready" => self.ready = true,
                "exited" => {
                    let exit = serde_json::from_str::<Exit>(params.get()).ok();
                    match exit.filter(|_| self.exits.len() < MAX_EXITS) {
                        Some(exit) => drop(self.exits.insert(exit.pid, exit)),
                        None => self.lost = true,
                    }
                }
                _ => self.lost = true,
            },
            Ok(Message::Request { .. } | Message::Complaint(_)) | Err(_) => self.lost = true,
        }
    }
}

/// The zygote is gone, or talks nonsense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost;

/// Whether a fork has said, within a moment, that it is there.
fn speaks(protocol: &UnixStream) -> bool {
    let mut fds = [PollFd::new(protocol, PollFlags::IN)];
    // Whatever it says, the socket is looked at next.
    let _ = rustix::event::poll(&mut fds, Timespec::try_from(PATIENCE).ok().as_ref());
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    rustix::net::recv(protocol, &mut [0; 1], flags).is_ok_and(|(len, _)| len > 0)
}

/// The last line of what a process that has ended wrote.
fn last_words(stderr: OwnedFd) -> String {
    let mut text = Vec::new();
    // Whatever could not be read, the rest may tell enough.
    let _ = rustix::io::ioctl_fionbio(&stderr, true);
    let _ = File::from(stderr).take(MAX_COMPLAINT_BYTES).read_to_end(&mut text);
    String::from_utf8_lossy(&text).lines().last().unwrap_or("it says nothing").to_owned()
}

/// Our ends of a zygote's control and stderr, and its own.
fn descriptors() -> io::Result<(UnixStream, OwnedFd, Descriptors)> {
    let (control, theirs) = UnixStream::pair()?;
    control.set_nonblocking(true)?;
    let (stderr, user_stderr) = pipe()?;
    let protocol_in = OwnedFd::from(theirs);
    let protocol_out = protocol_in.as_fd().try_clone_to_owned()?;
    let user_stdout = File::options().write(true).open("/dev/null")?.into();
    Ok((control, stderr, Descriptors { protocol_in, protocol_out, user_stdout, user_stderr }))
}
