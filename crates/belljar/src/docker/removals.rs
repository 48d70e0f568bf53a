//! Containers on their way out. What an engine fails to remove is logged, kept in mind and tried
//! again at the next chance.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bollard::query_parameters::RemoveContainerOptionsBuilder;

use super::engine::{Engine, PATIENCE, Refused};

/// Containers of an engine that could not be removed.
#[derive(Default)]
pub(super) struct Left(Mutex<BTreeSet<String>>);

impl Left {
    fn ids(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tries once more to remove what is left of an engine's containers. Nobody waits for it.
pub(super) fn retry(engine: &Engine) {
    let left = std::mem::take(&mut *engine.left().ids());
    for id in left {
        begin(engine, id, || {});
    }
}

/// Has a container removed, with what is in it; `then` is called when that has been tried.
fn begin(engine: &Engine, id: String, then: impl FnOnce() + Send + 'static) {
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    let (named, left) = (id.clone(), Arc::clone(engine.left()));
    engine.tell(
        |docker| async move { docker.remove_container(&named, Some(options)).await },
        move |removed| {
            if let Err(refused) = removed
                && !is_going(&refused)
            {
                let event = "container_not_removed";
                tracing::warn!(target: crate::logging::TARGET, event, id, %refused);
                left.ids().insert(id);
            }
            then();
        },
    );
}

/// Whether somebody else has removed it, or is about to.
pub(super) const fn is_going(refused: &Refused) -> bool {
    matches!(refused.status, Some(404 | 409))
}

/// The removals of one sandbox. Dropping it waits for them, so that nothing is left when a sandbox
/// is gone.
#[derive(Default)]
pub(super) struct Removals(Arc<Outstanding>);

#[derive(Default)]
struct Outstanding {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Outstanding {
    fn count(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Removals {
    pub(super) fn remove(&self, engine: &Engine, id: &str) {
        retry(engine);
        let outstanding = Arc::clone(&self.0);
        *outstanding.count() += 1;
        begin(engine, id.to_owned(), move || {
            *outstanding.count() -= 1;
            outstanding.changed.notify_all();
        });
    }
}

impl Drop for Removals {
    fn drop(&mut self) {
        let waiting = self.0.count();
        // What cannot be removed now is tried again later, or collected when this process is gone.
        let _ = self.0.changed.wait_timeout_while(waiting, PATIENCE, |count| *count > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake_engine::answering;
    use super::*;

    fn removed(engine: &Engine, id: &str) {
        // Dropping it waits.
        Removals::default().remove(engine, id);
    }

    #[test]
    fn what_could_not_be_removed_is_tried_again_at_the_next_chance() {
        let (engine, asked) = answering(&[("500 Busy", ""), ("204 Gone", ""), ("204 Gone", "")]);
        removed(&engine, "first");
        assert!(asked.recv().unwrap().contains("/containers/first?"));
        assert_eq!(*engine.left().ids(), BTreeSet::from(["first".to_owned()]));
        removed(&engine, "second");
        let mut again = [asked.recv().unwrap(), asked.recv().unwrap()];
        again.sort();
        assert!(again[0].contains("/containers/first?"), "{again:?}");
        assert!(again[1].contains("/containers/second?"), "{again:?}");
        assert!(engine.left().ids().is_empty());
    }

    #[test]
    fn what_somebody_else_removes_is_not_tried_again() {
        let (engine, asked) = answering(&[("404 Not Found", "{}"), ("409 Conflict", "{}")]);
        removed(&engine, "gone");
        removed(&engine, "going");
        assert_eq!(asked.iter().count(), 2);
        assert!(engine.left().ids().is_empty());
    }
}
