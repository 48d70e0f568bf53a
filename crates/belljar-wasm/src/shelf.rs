//! Things kept for reuse: what was put back last is taken first, because it is still warm.

use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_queue::ArrayQueue;

/// A bounded stack without a lock. With several threads at work the order is a preference; nothing
/// is lost or given twice.
pub struct Shelf<T> {
    /// Each holds one thing or none.
    places: Box<[ArrayQueue<T>]>,
    /// Where the free places probably begin.
    top: AtomicUsize,
}

impl<T> Shelf<T> {
    pub fn new(places: usize) -> Shelf<T> {
        let places = (0..places).map(|_| ArrayQueue::new(1)).collect();
        Shelf { places, top: AtomicUsize::new(0) }
    }

    /// Takes what was put there last.
    pub fn take(&self) -> Option<T> {
        let top = self.top.load(Ordering::Relaxed).min(self.places.len());
        let below = (0..top).rev();
        let above = top..self.places.len();
        below.chain(above).find_map(|index| {
            let thing = self.places[index].pop()?;
            self.top.store(index, Ordering::Relaxed);
            Some(thing)
        })
    }

    /// Puts something on the shelf; gives it back when there is no place.
    pub fn put(&self, mut thing: T) -> Result<(), T> {
        let top = self.top.load(Ordering::Relaxed).min(self.places.len());
        for index in (top..self.places.len()).chain((0..top).rev()) {
            match self.places[index].push(thing) {
                Ok(()) => {
                    self.top.store(index + 1, Ordering::Relaxed);
                    return Ok(());
                }
                Err(back) => thing = back,
            }
        }
        Err(thing)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.places.iter().map(ArrayQueue::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_is_taken_first() {
        let shelf = Shelf::new(3);
        for thing in [1, 2, 3] {
            shelf.put(thing).unwrap();
        }
        assert_eq!(shelf.put(4), Err(4));
        assert_eq!((shelf.take(), shelf.take()), (Some(3), Some(2)));
        shelf.put(5).unwrap();
        assert_eq!((shelf.take(), shelf.take(), shelf.take()), (Some(5), Some(1), None));
    }

    #[test]
    fn threads_lose_nothing_and_share_nothing() {
        let shelf = Shelf::new(8);
        for thing in 0..8 {
            shelf.put(thing).unwrap();
        }
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        if let Some(thing) = shelf.take() {
                            shelf.put(thing).unwrap();
                        }
                    }
                });
            }
        });
        let mut left: Vec<i32> = std::iter::from_fn(|| shelf.take()).collect();
        left.sort_unstable();
        assert_eq!(left, [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
