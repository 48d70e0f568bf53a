//! Processes of an agent: each has threads that read what it writes, and one that waits for its end.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

use super::messages::{CHUNK_BYTES, Command, HOME, Identity, News, Order, Size, Stream, TMP};

/// Pieces of input that wait for a process to read them.
const MAX_WAITING_INPUT: usize = 256;
/// What a process has started may hold its output open after it; nobody waits longer for that.
const AFTERWARDS: Duration = Duration::from_millis(300);

/// Serves the daemon until it is gone.
///
/// # Errors
/// When this is no jail, or the daemon cannot be heard.
pub fn serve() -> io::Result<()> {
    let (input, output) = belljar_jail::inside::protocol()?;
    let agent = Agent { out: Arc::new(Mutex::new(File::from(output))), processes: Arc::default() };
    agent.tell(&News::Here { home: identity(HOME)?, tmp: identity(TMP)? });
    for line in BufReader::new(File::from(input)).lines() {
        match serde_json::from_str(&line?) {
            Ok(order) => agent.obey(order),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn identity(path: &str) -> io::Result<Identity> {
    let found = std::fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Makes this process the leader of a session in the terminal it was started with, then another
/// program.
///
/// # Errors
/// Whatever prevents it.
pub fn become_in_terminal(program: &str, args: &[String]) -> io::Result<Infallible> {
    rustix::process::setsid()?;
    rustix::process::ioctl_tiocsctty(io::stdin())?;
    Err(std::process::Command::new(program).args(args).exec())
}

#[derive(Clone)]
struct Agent {
    out: Arc<Mutex<File>>,
    processes: Arc<Mutex<HashMap<u32, Running>>>,
}

struct Running {
    /// `None` when there is nothing more to read.
    input: Option<SyncSender<Vec<u8>>>,
    terminal: Option<OwnedFd>,
}

impl Agent {
    fn obey(&self, order: Order) {
        match order {
            Order::Start { id, command } => match self.start(id, &command) {
                Ok(()) => {}
                Err(error) => {
                    let problem = format!("{}: {error}", command.program);
                    self.tell(&News::Refused { id, problem });
                }
            },
            Order::Input { pid, data } => self.feed(pid, &data),
            Order::CloseInput { pid } => {
                if let Some(running) = self.processes().get_mut(&pid) {
                    running.input = None;
                }
            }
            Order::Signal { pid, signal } => {
                let known = self.processes().contains_key(&pid);
                let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).filter(|_| known);
                if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
                    // It may have ended meanwhile.
                    let _ = rustix::process::kill_process_group(pid, signal);
                }
            }
            Order::Resize { pid, size } => {
                if let Some(terminal) =
                    self.processes().get(&pid).and_then(|it| it.terminal.as_ref())
                {
                    let _ = rustix::termios::tcsetwinsize(terminal, winsize(size));
                }
            }
        }
    }

    fn feed(&self, pid: u32, data: &str) {
        let Ok(data) = STANDARD.decode(data) else { return };
        let sender = self.processes().get(&pid).and_then(|running| running.input.clone());
        let Some(sender) = sender else { return };
        if let Err(TrySendError::Full(_)) = sender.try_send(data) {
            let told = b"belljar: input was dropped: the process does not read it\n";
            let data = STANDARD.encode(told);
            self.tell(&News::Output { pid, stream: Stream::Stderr, data });
        }
    }

    fn start(&self, id: u64, command: &Command) -> io::Result<()> {
        let directory = std::fs::metadata(&command.directory)
            .map_err(|error| io::Error::other(format!("cwd {}: {error}", command.directory)))?;
        if !directory.is_dir() {
            return Err(io::Error::other(format!("cwd {} is no directory", command.directory)));
        }
        match command.terminal {
            Some(size) => self.start_in_terminal(id, command, size),
            None => self.start_with_pipes(id, command),
        }
    }

    fn start_with_pipes(&self, id: u64, command: &Command) -> io::Result<()> {
        let mut child = std::process::Command::new(&command.program)
            .args(&command.args)
            .env_clear()
            .envs(&command.env)
            .current_dir(&command.directory)
            .process_group(0)
            .stdin(if command.input { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let pid = child.id();
        let input = child.stdin.take().map(|stdin| writer(File::from(OwnedFd::from(stdin))));
        self.processes().insert(pid, Running { input, terminal: None });
        self.tell(&News::Started { id, pid });
        let streams = [
            child.stdout.take().map(|it| (Stream::Stdout, OwnedFd::from(it))),
            child.stderr.take().map(|it| (Stream::Stderr, OwnedFd::from(it))),
        ];
        self.attend(child, streams.into_iter().flatten().collect());
        Ok(())
    }

    fn start_in_terminal(&self, id: u64, command: &Command, size: Size) -> io::Result<()> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let main = rustix::pty::openpt(flags)?;
        rustix::pty::grantpt(&main)?;
        rustix::pty::unlockpt(&main)?;
        rustix::termios::tcsetwinsize(&main, winsize(size))?;
        let name = rustix::pty::ptsname(&main, Vec::new())?;
        let open = || {
            let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
            rustix::fs::open(name.as_c_str(), flags, rustix::fs::Mode::empty())
        };
        // This program once more, which takes the terminal and becomes the other: that cannot be
        // done from here.
        let child = std::process::Command::new("/proc/self/exe")
            .args(["daemon", "terminal", "--", &command.program])
            .args(&command.args)
            .env_clear()
            .envs(&command.env)
            .current_dir(&command.directory)
            .stdin(open()?)
            .stdout(open()?)
            .stderr(open()?)
            .spawn()?;
        let pid = child.id();
        let input = writer(File::from(main.try_clone()?));
        let output = main.try_clone()?;
        let running = Running { input: Some(input), terminal: Some(main) };
        self.processes().insert(pid, running);
        self.tell(&News::Started { id, pid });
        self.attend(child, vec![(Stream::Pty, output)]);
        Ok(())
    }

    /// Reads what a process writes, and waits for its end.
    fn attend(&self, mut child: Child, streams: Vec<(Stream, OwnedFd)>) {
        let pid = child.id();
        let (done, all_read) = mpsc::channel::<()>();
        for (stream, fd) in streams {
            let (agent, done) = (self.clone(), done.clone());
            std::thread::spawn(move || {
                let _done = done;
                agent.pass_on(pid, stream, File::from(fd));
            });
        }
        drop(done);
        let agent = self.clone();
        std::thread::spawn(move || {
            let status = child.wait();
            // Everything was read when all who would say something are gone.
            let _: Result<(), RecvTimeoutError> = all_read.recv_timeout(AFTERWARDS);
            agent.processes().remove(&pid);
            let (code, signal) =
                status.map_or((None, None), |status| (status.code(), status.signal()));
            agent.tell(&News::Ended { pid, code, signal });
        });
    }

    fn pass_on(&self, pid: u32, stream: Stream, mut from: File) {
        let mut chunk = vec![0; CHUNK_BYTES];
        // A terminal whose other side is closed gives an error instead of an end.
        while let Ok(length @ 1..) = from.read(&mut chunk) {
            let data = STANDARD.encode(&chunk[..length]);
            self.tell(&News::Output { pid, stream, data });
        }
    }

    /// Waits until the daemon has room for it.
    fn tell(&self, news: &News) {
        let Ok(mut line) = serde_json::to_vec(news) else { return };
        line.push(b'\n');
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if out.write_all(&line).is_err() {
            // Without the daemon there is nothing to do.
            std::process::exit(1);
        }
    }

    fn processes(&self) -> MutexGuard<'_, HashMap<u32, Running>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes what comes to a process, in its own time; the file is closed after the last piece.
fn writer(mut to: File) -> SyncSender<Vec<u8>> {
    let (sender, receiver): (_, Receiver<Vec<u8>>) = mpsc::sync_channel(MAX_WAITING_INPUT);
    std::thread::spawn(move || {
        for piece in receiver {
            if to.write_all(&piece).is_err() {
                return;
            }
        }
    });
    sender
}

const fn winsize(size: Size) -> Winsize {
    Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 }
}
