//! A sandbox's commands: a jail that sees its home and its temporary files, and in it an agent that
//! starts processes. What the agent says is believed as little as what the processes do.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::E2b;
use super::command_jail as jail;
use super::connect::{Code, Refusal};
use super::place::{self, HOME, Root, TMP};
use super::registry::Sandbox;
use super::shares::Share;
use crate::agent::messages::{Command, MAX_LINE_BYTES, News, Order, Stream};

/// Jails of all sandboxes: each is some processes.
pub(super) const MAX_JAILS: usize = 256;
/// A jail in which nothing runs ends after this.
const IDLE: Duration = Duration::from_secs(60);
/// How often it is looked how much disk is used.
const LOOK: Duration = Duration::from_secs(1);
/// How often in a row processes may be such that nobody can look what they hold.
const MAX_HIDDEN: usize = 3;
/// Pieces of output that wait for whoever listens; then the process waits, too.
const WAITING: usize = 64;
/// Processes that have ended, of which it is still known how.
const MAX_ENDED: usize = 64;
/// How long an agent may take to start a process.
const START: Duration = Duration::from_secs(30);

/// What is told of a process.
#[derive(Debug, Clone)]
pub(super) enum Told {
    Data(Stream, String),
    Ended(Ended),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
}

/// A process that an agent has started.
pub(super) struct Process {
    pub(super) pid: u32,
    /// As its client described it.
    pub(super) config: Value,
    pub(super) tag: Option<String>,
    listeners: Mutex<Vec<mpsc::Sender<Told>>>,
    ended: Mutex<Option<Ended>>,
}

impl Process {
    /// What it does from now on. One that has ended says how.
    pub(super) fn listen(&self) -> mpsc::Receiver<Told> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let ended = *self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        match ended {
            // There is room for one.
            Some(ended) => drop(sender.try_send(Told::Ended(ended))),
            None => self.listeners().push(sender),
        }
        receiver
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<mpsc::Sender<Told>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn tell(&self, told: Told) {
        let listeners = self.listeners().clone();
        for listener in listeners {
            // Whoever does not listen any more is forgotten below.
            let _ = listener.send(told.clone()).await;
        }
        self.listeners().retain(|listener| !listener.is_closed());
    }
}

/// A process that is being started.
struct Starting {
    config: Value,
    tag: Option<String>,
    listener: mpsc::Sender<Told>,
    answer: oneshot::Sender<Result<Arc<Process>, String>>,
}

/// What is known of the processes in a jail.
#[derive(Default)]
struct Known {
    last: u64,
    starting: HashMap<u64, Starting>,
    running: HashMap<u32, Arc<Process>>,
    ended: VecDeque<Arc<Process>>,
}

/// A jail with an agent.
pub(super) struct Commands {
    known: Mutex<Known>,
    out: tokio::sync::Mutex<OwnedWriteHalf>,
    /// Ends it.
    end: CancellationToken,
    /// Nothing of it is left.
    pub(super) over: CancellationToken,
    max_processes: usize,
    memory: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl Commands {
    /// The most memory that its processes used at once, where that is known.
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.memory)()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn running(&self) -> Vec<Arc<Process>> {
        self.known().running.values().cloned().collect()
    }

    /// A process by its number or its tag; one that has ended, too.
    pub(super) fn find(&self, wanted: impl Fn(&Process) -> bool) -> Option<Arc<Process>> {
        let known = self.known();
        let mut all = known.running.values().chain(known.ended.iter().rev());
        all.find(|process| wanted(process)).cloned()
    }

    pub(super) fn is_running(&self, pid: u32) -> bool {
        self.known().running.contains_key(&pid)
    }

    fn is_unused(&self) -> bool {
        let known = self.known();
        known.running.is_empty() && known.starting.is_empty()
    }

    /// Starts a process; what it does is heard from its beginning.
    pub(super) async fn start(
        &self,
        command: Command,
        config: Value,
        tag: Option<String>,
    ) -> Result<(Arc<Process>, mpsc::Receiver<Told>), Refusal> {
        let (listener, receiver) = mpsc::channel(WAITING);
        let (answer, answered) = oneshot::channel();
        let id = {
            let mut known = self.known();
            if known.running.len() + known.starting.len() >= self.max_processes {
                let problem = format!("{} processes run, and no more may", self.max_processes);
                return Err(Refusal::new(Code::ResourceExhausted, problem));
            }
            known.last += 1;
            let id = known.last;
            known.starting.insert(id, Starting { config, tag, listener, answer });
            id
        };
        let gone = || Refusal::new(Code::Unavailable, "the sandbox's commands have ended");
        self.order(&Order::Start { id, command }).await?;
        match timeout(START, answered).await {
            Ok(Ok(Ok(process))) => Ok((process, receiver)),
            Ok(Ok(Err(problem))) => Err(Refusal::invalid(problem)),
            Ok(Err(_)) => Err(gone()),
            Err(_) => {
                self.known().starting.remove(&id);
                Err(gone())
            }
        }
    }

    pub(super) async fn order(&self, order: &Order) -> Result<(), Refusal> {
        let mut line = serde_json::to_vec(order)
            .map_err(|error| Refusal::new(Code::Internal, error.to_string()))?;
        line.push(b'\n');
        let written = self.out.lock().await.write_all(&line).await;
        written.map_err(|_| Refusal::new(Code::Unavailable, "the sandbox's commands have ended"))
    }

    /// Hears the agent until it or the sandbox ends.
    async fn hear(&self, mut input: BufReader<OwnedReadHalf>) {
        while let Some(news) = next_news(&mut input).await {
            self.take_in(news).await;
        }
    }

    async fn take_in(&self, news: News) {
        match news {
            // It is said once, and was heard.
            News::Here { .. } => {}
            News::Started { id, pid } => {
                let mut known = self.known();
                let Some(starting) = known.starting.remove(&id) else { return };
                let process = Arc::new(Process {
                    pid,
                    config: starting.config,
                    tag: starting.tag,
                    listeners: Mutex::new(vec![starting.listener]),
                    ended: Mutex::default(),
                });
                known.running.insert(pid, Arc::clone(&process));
                // Whoever asked may have gone; the process runs all the same.
                let _ = starting.answer.send(Ok(process));
            }
            News::Refused { id, problem } => {
                let starting = self.known().starting.remove(&id);
                if let Some(starting) = starting {
                    let _ = starting.answer.send(Err(problem));
                }
            }
            News::Output { pid, stream, data } => {
                let process = self.known().running.get(&pid).cloned();
                if let Some(process) = process {
                    process.tell(Told::Data(stream, data)).await;
                }
            }
            News::Ended { pid, code, signal } => {
                let process = self.known().running.remove(&pid);
                if let Some(process) = process {
                    self.over(&process, Ended { code, signal }).await;
                }
            }
        }
    }

    async fn over(&self, process: &Arc<Process>, ended: Ended) {
        *process.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
        process.tell(Told::Ended(ended)).await;
        process.listeners().clear();
        let mut known = self.known();
        known.ended.push_back(Arc::clone(process));
        if known.ended.len() > MAX_ENDED {
            known.ended.pop_front();
        }
    }

    /// Everything in the jail is over.
    async fn all_over(&self) {
        let (running, starting) = {
            let mut known = self.known();
            (std::mem::take(&mut known.running), std::mem::take(&mut known.starting))
        };
        drop(starting);
        for process in running.into_values() {
            self.over(&process, Ended { code: None, signal: Some(9) }).await;
        }
    }
}

/// What the agent says next; nothing when it is gone, or somebody in the jail speaks in its place.
async fn next_news(input: &mut BufReader<OwnedReadHalf>) -> Option<News> {
    let mut line = Vec::new();
    let read = input.take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line).await;
    read.ok().filter(|_| line.last() == Some(&b'\n'))?;
    serde_json::from_slice(&line).ok()
}

impl E2b {
    /// The jail of a sandbox's commands, if there is one.
    pub(super) async fn existing_commands(&self, sandbox: &Sandbox) -> Option<Arc<Commands>> {
        sandbox.commands.lock().await.clone()
    }

    /// Starts a process in a sandbox's jail, which is made if there is none.
    pub(super) async fn start_process(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        command: Command,
        config: Value,
        tag: Option<String>,
    ) -> Result<(Arc<Commands>, Arc<Process>, mpsc::Receiver<Told>), Refusal> {
        // Held until it runs, so that the jail is not found unused meanwhile.
        let mut place = sandbox.commands.lock().await;
        if !sandbox.is_running() {
            return Err(Refusal::new(Code::Unavailable, "The sandbox was not found"));
        }
        let commands = match place.as_ref().filter(|it| !it.end.is_cancelled()) {
            Some(commands) => Arc::clone(commands),
            None => {
                let made = self.make_jail(sandbox).await?;
                *place = Some(Arc::clone(&made));
                made
            }
        };
        let (process, receiver) = commands.start(command, config, tag).await?;
        Ok((commands, process, receiver))
    }

    /// Ends all commands of a sandbox.
    pub(super) async fn end_commands(&self, sandbox: &Sandbox) {
        let commands = sandbox.commands.lock().await.take();
        if let Some(commands) = commands {
            commands.end.cancel();
            // Until nobody writes to its files any more.
            commands.over.cancelled().await;
        }
    }

    async fn make_jail(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<Arc<Commands>, Refusal> {
        if !self.hub.confined {
            let problem = "commands need a jail, and this daemon was started without any";
            return Err(Refusal::new(Code::Unimplemented, problem));
        }
        let share = self.share(&self.jails, &sandbox.owner).ok_or_else(|| {
            let problem = "there are as many command jails of this key as may be";
            Refusal::new(Code::ResourceExhausted, problem)
        })?;
        // No link leads to what will be mounted; whether it is what was mounted, is asked below.
        let root = self.root(sandbox)?;
        let mine = (root.identity(HOME)?, root.identity(TMP)?);
        let path = place::root_path(&self.directory_of(sandbox.slot()), &sandbox.id);
        let limits = self.hub.limits.clone();
        let program = self.program.clone();
        let started = tokio::task::spawn_blocking(move || jail::start(&program, &path, &limits));
        let (jailed, stream) = started
            .await
            .map_err(io::Error::other)
            .flatten()
            .map_err(|error| Refusal::new(Code::Unavailable, format!("no jail: {error}")))?;
        let (input, output) = stream.into_split();
        let (jailed, mut input) = (Arc::new(jailed), BufReader::new(input));
        // Somebody who has broken out of a worker could have put something else in its place, in
        // between. Nothing but the agent has run in the jail yet.
        let seen = timeout(START, next_news(&mut input)).await;
        if !matches!(seen, Ok(Some(News::Here { home, tmp })) if (home, tmp) == mine) {
            tracing::error!(sandbox = sandbox.id, "a jail does not see the sandbox's own files");
            jail::end(jailed).await;
            let problem = "the sandbox's directories are not what they were";
            return Err(Refusal::new(Code::Unavailable, problem));
        }
        let counted = Arc::downgrade(&jailed);
        let memory = move || counted.upgrade().map_or(0, |jailed| jailed.memory_bytes());
        let commands = Arc::new(Commands {
            known: Mutex::default(),
            out: tokio::sync::Mutex::new(output),
            end: sandbox.alive().child_token(),
            over: CancellationToken::new(),
            memory: Box::new(memory),
            max_processes: usize::try_from(self.hub.limits.e2b_processes).unwrap_or(usize::MAX),
        });
        let watch = Watch {
            sandbox: Arc::clone(sandbox),
            commands: Arc::clone(&commands),
            root,
            most: self.hub.limits.e2b_disk_bytes,
            _share: share,
        };
        tokio::spawn(watch.attend(jailed, input));
        Ok(commands)
    }
}

/// What a jail's processes use of a sandbox's disk.
struct Disk {
    root: Root,
    jailed: Arc<jail::Held>,
}

#[derive(Clone, Copy)]
struct Used {
    bytes: u64,
    /// Not everything could be looked at.
    hidden: bool,
}

impl Disk {
    /// Files that were removed and are still open have no name, and take room all the same.
    fn used_bytes(&self, most: u64) -> io::Result<Used> {
        let named = self.root.used_bytes()?;
        Ok(match self.jailed.removed_bytes(&self.root, most) {
            Some(removed) => Used { bytes: named.saturating_add(removed), hidden: false },
            None => Used { bytes: named, hidden: true },
        })
    }
}

/// Looks after a jail until it ends.
struct Watch {
    sandbox: Arc<Sandbox>,
    commands: Arc<Commands>,
    root: Root,
    most: u64,
    _share: Share,
}

impl Watch {
    async fn attend(self, jailed: Arc<jail::Held>, input: BufReader<OwnedReadHalf>) {
        let commands = Arc::clone(&self.commands);
        {
            let hearing = commands.hear(input);
            tokio::pin!(hearing);
            let mut look = interval(LOOK);
            let mut used = Instant::now();
            let disk = Arc::new(Disk { root: self.root, jailed: Arc::clone(&jailed) });
            let mut hidden = 0;
            loop {
                tokio::select! {
                    () = &mut hearing => break,
                    () = commands.end.cancelled() => break,
                    _ = look.tick() => {}
                }
                if !commands.is_unused() {
                    used = Instant::now();
                }
                let (disk, most) = (Arc::clone(&disk), self.most);
                let looked = tokio::task::spawn_blocking(move || disk.used_bytes(most));
                let found = looked.await.ok().and_then(Result::ok);
                let over = found.is_some_and(|found| found.bytes > self.most);
                // A process that is becoming another program lets nobody look, for a moment.
                hidden = if found.is_some_and(|found| found.hidden) { hidden + 1 } else { 0 };
                if over || hidden >= MAX_HIDDEN {
                    tracing::warn!(sandbox = self.sandbox.id, "commands used too much disk");
                    break;
                }
                if used.elapsed() > IDLE
                    && let Ok(mut place) = self.sandbox.commands.try_lock()
                    && commands.is_unused()
                {
                    *place = None;
                    break;
                }
            }
        }
        // From here on nobody starts anything in it.
        commands.end.cancel();
        jail::end(jailed).await;
        commands.over.cancel();
        commands.all_over().await;
    }
}
