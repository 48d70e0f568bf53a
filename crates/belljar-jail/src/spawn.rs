//! Starting a plan, and holding on to what was started.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::cgroup::Cgroup;
use crate::embedded;
use crate::error::JailError;
use crate::messages::{self, Message, Request};
use crate::plan::JailPlan;
use crate::probe::Layer;
use crate::wire;

/// How long a jail may take to end after it was told to.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it may take to start. Milliseconds do, unless a mounted file system does not answer.
const START_PATIENCE: Duration = Duration::from_secs(30);
const HEAR: &str = "hear from the jail's helper";

/// A zygote's own memory, beside that of its children.
const ZYGOTE_BYTES: u64 = 64 * 1024 * 1024;
/// The zygote, and the first process of its child.
const ZYGOTE_PROCESSES: u32 = 2;

/// The descriptors of a jailed program. In the program: nothing to read at 0, `user_stdout` at 1,
/// `user_stderr` at 2, `protocol_in` at 3 and `protocol_out` at 4. No others are open in it.
#[derive(Debug)]
pub struct Descriptors {
    /// What the host says.
    pub protocol_in: OwnedFd,
    /// What the host hears; may be a copy of the same socket.
    pub protocol_out: OwnedFd,
    /// Where the user's code and its children print.
    pub user_stdout: OwnedFd,
    /// Where their errors go.
    pub user_stderr: OwnedFd,
}

/// How a jailed program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// The kernel killed it, since the jail had used up its memory.
    OutOfMemory,
    /// With the whole jail: by [`Jailed::kill`], or by somebody outside.
    Killed,
}

/// A running jail. Dropping it kills and reaps everything in it.
#[derive(Debug)]
pub struct Jailed {
    control: OwnedFd,
    layers: Vec<Layer>,
    proc: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    helper: Child,
    /// As the jail's first process told it.
    reported: Option<ExitStatus>,
    ended: Option<Ended>,
    cgroup: Option<Cgroup>,
}

impl Jailed {
    /// Starts `plan` and waits until its program runs, which takes a few milliseconds.
    ///
    /// Cheap also in a host with much memory and many threads: nothing is copied, and nothing of
    /// ours runs in a fork of the host.
    ///
    /// # Errors
    ///
    /// When the jail cannot be had as planned, or its program cannot be started.
    pub fn spawn(plan: &JailPlan, descriptors: Descriptors) -> Result<Self, JailError> {
        let cgroup = limiting_group(plan)?;
        let encoded = embedded::sealed_file(&wire::encode(plan, cgroup.is_some())?)?;
        let entrances = match &cgroup {
            Some(group) => group.entrances().map_err(JailError::host("open a control group"))?,
            None => Vec::new(),
        };
        let (control, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(io::Error::from)
                .map_err(JailError::host("make a socket"))?;
        let helper = start_helper(theirs)?;

        let given = [
            &encoded,
            &descriptors.protocol_in,
            &descriptors.protocol_out,
            &descriptors.user_stdout,
            &descriptors.user_stderr,
            embedded::zygote()?,
        ];
        let all: Vec<_> = given.into_iter().chain(&entrances).map(AsFd::as_fd).collect();
        let state = State { helper, reported: None, ended: None, cgroup };
        // From here on dropping it ends what was started.
        let mut jailed =
            Self { control, layers: Vec::new(), proc: false, state: Mutex::new(state) };
        messages::send_start(&jailed.control, &all)
            .map_err(JailError::host("talk to the jail's helper"))?;
        // Ours are closed, so that the host sees the end of the program's.
        drop((descriptors, entrances));
        jailed.await_start()?;
        Ok(jailed)
    }

    /// What really confines it; for a zygote, what confines its children.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Whether there is a `/proc` in it.
    pub fn has_proc(&self) -> bool {
        self.proc
    }

    /// The process of the host under which everything in the jail runs; `None` once it has ended.
    pub fn ancestor(&self) -> Option<u32> {
        let state = self.state();
        state.ended.is_none().then(|| state.helper.id())
    }

    /// Sends the program SIGINT.
    ///
    /// # Errors
    ///
    /// When the jail has ended.
    pub fn interrupt(&self) -> io::Result<()> {
        messages::send(&self.control, &Request::Interrupt)
    }

    /// Ends everything in the jail at once. [`wait`](Self::wait) then comes back soon.
    pub fn kill(&self) {
        // Fails only when it has ended.
        drop(messages::send(&self.control, &Request::Kill));
    }

    /// Waits until everything in the jail has ended, and says how the program did.
    ///
    /// # Errors
    ///
    /// When the system does not say.
    pub fn wait(&self) -> io::Result<Ended> {
        loop {
            if let Some(ended) = self.try_wait()? {
                return Ok(ended);
            }
            self.readable_within(None)?;
        }
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    ///
    /// When the system does not say.
    pub fn try_wait(&self) -> io::Result<Option<Ended>> {
        let mut state = self.state();
        while state.ended.is_none() && self.readable_within(Some(Duration::ZERO))? {
            state.take_in(&messages::receive(&self.control)?);
        }
        Ok(state.ended)
    }

    /// For a zygote: a directory of the host as a mount that the zygote can hand to a child.
    ///
    /// # Errors
    ///
    /// When the directory is not there, or the jail has ended.
    pub fn take_directory(&self, host: &Path, writable: bool) -> Result<OwnedFd, JailError> {
        const WHAT: &str = "take a directory into the jail";
        let host = host.canonicalize().map_err(JailError::host(WHAT))?;
        let mut state = self.state();
        let request = Request::Take { path: host.as_os_str().as_bytes(), writable };
        messages::send(&self.control, &request).map_err(JailError::host(WHAT))?;
        loop {
            match messages::receive(&self.control).map_err(JailError::host(WHAT))? {
                Message::Mounted(tree) => return Ok(tree),
                Message::Failed { step, errno } => return Err(step_failed(step, errno)),
                other => {
                    state.take_in(&other);
                    if state.ended.is_some() {
                        return Err(JailError::HelperLost);
                    }
                }
            }
        }
    }

    /// The most memory that the jail used at once, where a control group counts it.
    pub fn peak_memory_bytes(&self) -> Option<u64> {
        self.state().cgroup.as_ref().and_then(Cgroup::peak_memory_bytes)
    }

    /// Forgets the most memory used until now, for a zygote between its children; false where that
    /// cannot be.
    pub fn reset_peak_memory(&self) -> bool {
        self.state().cgroup.as_ref().is_some_and(Cgroup::reset_peak_memory)
    }

    /// How many processes the kernel has killed for want of memory. For a zygote of all its
    /// children, so look at it before and after.
    pub fn memory_kills(&self) -> u64 {
        self.state().cgroup.as_ref().map_or(0, Cgroup::memory_kills)
    }

    fn await_start(&mut self) -> Result<(), JailError> {
        let deadline = Instant::now() + START_PATIENCE;
        while !self.readable_within(Some(START_PATIENCE)).map_err(JailError::host(HEAR))? {
            // Before that it was a signal.
            if Instant::now() >= deadline {
                return Err(JailError::TooSlow(START_PATIENCE));
            }
        }
        match messages::receive(&self.control).map_err(JailError::host(HEAR))? {
            Message::Ready { landlock, proc } => {
                let grouped = self.state().cgroup.is_some();
                self.layers = Layer::held(landlock > 0, grouped);
                self.proc = proc;
                Ok(())
            }
            Message::Failed { step, errno } => Err(step_failed(step, errno)),
            Message::Ended { .. } | Message::Mounted(_) | Message::Gone => {
                Err(JailError::HelperLost)
            }
        }
    }

    fn readable_within(&self, time: Option<Duration>) -> io::Result<bool> {
        let time = time.map(|t| Timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        let mut fds = [PollFd::new(&self.control, PollFlags::IN)];
        match poll(&mut fds, time.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(other) => Err(other.into()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Jailed {
    fn drop(&mut self) {
        self.kill();
        let deadline = Instant::now() + PATIENCE;
        loop {
            if !matches!(self.try_wait(), Ok(None)) {
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            drop(self.readable_within(Some(left)));
        }
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.ended.is_none() {
            // A helper that does not answer is killed, and the kernel kills the rest with it.
            drop(state.helper.kill());
            drop(state.helper.wait());
        }
    }
}

impl State {
    fn take_in(&mut self, message: &Message) {
        match message {
            Message::Ended { status } => self.reported = Some(ExitStatus::from_raw(*status)),
            Message::Gone => {
                // Fails in a host that ignores its children; then the kernel has reaped it.
                drop(self.helper.wait());
                self.ended = Some(self.how_it_ended());
            }
            Message::Ready { .. } | Message::Failed { .. } | Message::Mounted(_) => {}
        }
    }

    fn how_it_ended(&self) -> Ended {
        const SIGKILL: i32 = 9;
        let killed_for_memory =
            || self.cgroup.as_ref().is_some_and(|group| group.memory_kills() > 0);
        match self.reported {
            Some(status) => match (status.signal(), status.code()) {
                (Some(SIGKILL), _) if killed_for_memory() => Ended::OutOfMemory,
                (Some(signal), _) => Ended::Signalled(signal),
                (None, code) => Ended::Exited(code.unwrap_or(0)),
            },
            None if killed_for_memory() => Ended::OutOfMemory,
            None => Ended::Killed,
        }
    }
}

/// A control group where one can be had. Without, limits of each process must do; but the kernel
/// does not count the processes of root, so then there is no limit that would hold.
fn limiting_group(plan: &JailPlan) -> Result<Option<Cgroup>, JailError> {
    let mut limits = plan.limits.clone();
    if plan.zygote {
        limits.memory_bytes = limits.memory_bytes.saturating_add(ZYGOTE_BYTES);
        limits.max_processes = limits.max_processes.saturating_add(ZYGOTE_PROCESSES);
    }
    match Cgroup::create(&limits) {
        Ok(group) => Ok(Some(group)),
        Err(reason) if is_real_root() => {
            let reason = format!("{reason}; run as an ordinary user, or with control groups");
            Err(JailError::Unenforceable { limit: "max_processes", reason })
        }
        Err(_) => Ok(None),
    }
}

/// Whether this is root also outside of a container's user namespace, as far as can be seen.
fn is_real_root() -> bool {
    let outside = || {
        let map = std::fs::read_to_string("/proc/self/uid_map").ok()?;
        let mut numbers = map.lines().next()?.split_whitespace();
        Some((numbers.next()?.to_owned(), numbers.next()?.to_owned()))
    };
    // In a user namespace in which root is somebody else outside.
    let mapped = outside().is_some_and(|(inside, outside)| inside == "0" && outside != "0");
    rustix::process::geteuid().is_root() && !mapped
}

fn start_helper(control: OwnedFd) -> Result<Child, JailError> {
    use std::os::fd::AsRawFd;
    let program = format!("/proc/self/fd/{}", embedded::helper()?.as_raw_fd());
    Command::new(program)
        .arg0("belljar-jail")
        .env_clear()
        .stdin(Stdio::from(control))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(JailError::host("start the jail's helper (is /proc mounted?)"))
}

fn step_failed(step: String, errno: i32) -> JailError {
    JailError::Step { step, source: io::Error::from_raw_os_error(errno) }
}
