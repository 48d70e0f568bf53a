//! Whether interpreters come from a zygote, and from which.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use belljar_jail::JailPlan;

use super::fork::{ForkedProcess, locked};
use super::zygote::Zygote;
use crate::logging::TARGET;
use crate::process::launch::Launched;

/// A sandbox's zygote.
///
/// Loading one takes twice as long as starting an interpreter, and it stays in memory. So the first
/// interpreter of a sandbox, often the only one, is started without; the second has one made.
pub(super) struct Warm {
    plan: JailPlan,
    workspace: PathBuf,
    state: State,
}

enum State {
    Unused,
    /// It comes with the next interpreter.
    Wanted,
    Running(Arc<Mutex<Zygote>>),
    /// It cannot be had with this interpreter.
    Unavailable,
}

impl Warm {
    /// For sandboxes whose interpreters, started by themselves, would have this plan.
    pub(super) fn new(plan: &JailPlan, workspace: &Path) -> Self {
        let mut plan = plan.clone();
        plan.zygote = true;
        plan.workspace = None;
        plan.args.extend(["--zygote", "--jailed"].map(str::to_owned));
        Self { plan, workspace: workspace.to_owned(), state: State::Unused }
    }

    /// An interpreter; `None` when it has to be started by itself.
    pub(super) fn launch(&mut self) -> Option<Launched> {
        if let State::Running(zygote) = &self.state
            && !locked(zygote).is_current(&self.plan)
        {
            self.state = State::Wanted;
        }
        match &self.state {
            State::Unused => {
                self.state = State::Wanted;
                None
            }
            State::Wanted => match Zygote::start(&self.plan, &self.workspace) {
                Ok(zygote) => {
                    let zygote = Arc::new(Mutex::new(zygote));
                    self.state = State::Running(Arc::clone(&zygote));
                    self.fork(&zygote)
                }
                Err(reason) => {
                    tracing::debug!(target: TARGET, event = "zygote_unavailable", reason);
                    self.state = State::Unavailable;
                    None
                }
            },
            State::Running(zygote) => {
                let zygote = Arc::clone(zygote);
                self.fork(&zygote)
            }
            State::Unavailable => None,
        }
    }

    fn fork(&mut self, zygote: &Arc<Mutex<Zygote>>) -> Option<Launched> {
        let mut running = locked(zygote);
        if running.is_busy() {
            return None;
        }
        match running.fork() {
            Ok(fork) => {
                drop(running);
                Some(ForkedProcess::launched(Arc::clone(zygote), fork))
            }
            Err(reason) => {
                tracing::debug!(target: TARGET, event = "zygote_failed", reason);
                running.end();
                let worked = running.is_proven();
                self.state = if worked { State::Wanted } else { State::Unavailable };
                None
            }
        }
    }
}
