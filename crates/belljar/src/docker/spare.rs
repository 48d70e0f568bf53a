//! A container that is started before it is wanted, so that the second run of a sandbox need not
//! wait for one.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use super::container::Container;
use super::engine::Engine;
use super::plan::ContainerPlan;
use super::removals::Removals;
use crate::process::launch::Launched;

/// How long nobody may want it before it is made: a sandbox that runs one program only is gone by
/// then, and nothing was started for nothing.
const HESITATION: Duration = Duration::from_millis(20);

/// At most one container in reserve for one sandbox.
pub(super) struct Spare {
    engine: Engine,
    plan: ContainerPlan,
    removals: Arc<Removals>,
    own: Weak<Self>,
    preparing: Mutex<Option<Preparing>>,
}

struct Preparing {
    thread: JoinHandle<Option<Ready>>,
    unwanted: Arc<AtomicBool>,
}

/// A container nobody has spoken to, and the workspace that it has mounted.
struct Ready {
    launched: Launched,
    workspace: Identity,
}

/// A directory by what a name can lose: another one may have its name now.
type Identity = Option<(u64, u64, u32)>;

impl Spare {
    pub(super) fn new(engine: Engine, plan: ContainerPlan) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            engine,
            plan,
            removals: Arc::default(),
            own: Weak::clone(own),
            preparing: Mutex::new(None),
        })
    }

    /// A container: the one in reserve, or a new one.
    pub(super) fn launch(&self) -> Result<Launched, belljar_core::SandboxError> {
        if let Some(launched) = self.take() {
            return Ok(launched);
        }
        Container::launch(&self.engine, &self.plan, &self.removals, Weak::clone(&self.own))
    }

    /// Has one made, unless it is being made.
    pub(super) fn prepare(&self) {
        let mut preparing = self.locked();
        if preparing.is_some() {
            return;
        }
        let unwanted = Arc::new(AtomicBool::new(false));
        let (engine, plan) = (self.engine.clone(), self.plan.clone());
        let (removals, own) = (Arc::clone(&self.removals), Weak::clone(&self.own));
        let stop = Arc::clone(&unwanted);
        let thread = std::thread::Builder::new().spawn(move || {
            std::thread::park_timeout(HESITATION);
            if stop.load(Ordering::Acquire) {
                return None;
            }
            let workspace = identity(&plan);
            // A failure shows again when somebody wants one.
            let launched = Container::launch(&engine, &plan, &removals, own).ok()?;
            Some(Ready { launched, workspace })
        });
        *preparing = thread.ok().map(|thread| Preparing { thread, unwanted });
    }

    fn take(&self) -> Option<Launched> {
        let Preparing { thread, .. } = self.locked().take()?;
        thread.thread().unpark();
        let ready = thread.join().ok().flatten()?;
        let fresh = ready.workspace == identity(&self.plan) && !ready.launched.protocol.is_closed();
        fresh.then_some(ready.launched)
    }

    fn locked(&self) -> MutexGuard<'_, Option<Preparing>> {
        self.preparing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        if let Some(Preparing { thread, unwanted }) = self.locked().take() {
            unwanted.store(true, Ordering::Release);
            thread.thread().unpark();
            // Bounded by the time-outs of what it asks.
            drop(thread.join());
        }
    }
}

fn identity(plan: &ContainerPlan) -> Identity {
    let workspace: &Path = &plan.mounts.first()?.host;
    let found = std::fs::symlink_metadata(workspace).ok()?;
    Some((found.dev(), found.ino(), found.uid()))
}
