//! What the machine has few of: each key has a share of it that no other key can use up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many of something, for all keys.
pub(super) struct Shares {
    most: usize,
    held: Mutex<HashMap<String, usize>>,
}

/// One of them, until it is dropped.
pub(super) struct Share {
    of: Arc<Shares>,
    owner: String,
}

impl Shares {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, held: Mutex::default() })
    }

    /// One for an owner; `None` when it has its share, as so many keys there are, or all are taken.
    pub(super) fn take(self: &Arc<Self>, owner: &str, keys: usize) -> Option<Share> {
        let mut held = self.held();
        let share = (self.most / keys.max(1)).max(1);
        let own = held.get(owner).copied().unwrap_or_default();
        if own >= share || held.values().sum::<usize>() >= self.most {
            return None;
        }
        held.insert(owner.to_owned(), own + 1);
        Some(Share { of: Arc::clone(self), owner: owner.to_owned() })
    }

    fn held(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.of.held();
        if let Some(own) = held.get_mut(&self.owner) {
            *own -= 1;
            if *own == 0 {
                held.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_uses_up_what_others_need_and_one_alone_has_all() {
        let shares = Shares::new(6);
        let greedy: Vec<Share> = std::iter::from_fn(|| shares.take("greedy", 2)).collect();
        assert_eq!(greedy.len(), 3);
        let other = shares.take("other", 2);
        assert!(other.is_some());
        drop((greedy, other));
        let alone: Vec<Share> = std::iter::from_fn(|| shares.take("alone", 1)).collect();
        assert_eq!(alone.len(), 6);
        // Keys that came later wait until some are given back, and everybody gets one at least.
        assert!(shares.take("late", 100).is_none());
        drop(alone);
        assert!(shares.take("late", 100).is_some());
        assert!(shares.held().is_empty());
    }
}
