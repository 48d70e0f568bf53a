//! Memory that sessions have written, kept in one unnamed file so that it can be mapped again.
//!
//! A [`Layer`] is a part of that file, written once and then only mapped. When nobody uses it any
//! more its memory is given back; its place in the file is not used again, so a mapping can never
//! show what another session wrote.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, MemfdFlags};

use super::mapping::{Mapping, PAGE};

/// Read from a layer at once.
const READ_BYTES: usize = 64 * PAGE;

/// The file all layers of one guest lie in. One descriptor serves any number of sessions.
pub struct Arena {
    file: File,
    end: AtomicU64,
    /// A forked child has the file too, but not the others' idea of its end.
    owner: u32,
}

impl Arena {
    pub fn new() -> std::io::Result<Arena> {
        let file = rustix::fs::memfd_create("belljar-layers", MemfdFlags::CLOEXEC)?;
        Ok(Arena { file: file.into(), end: AtomicU64::new(0), owner: std::process::id() })
    }

    /// Whether this process may write to it.
    pub fn is_ours(&self) -> bool {
        self.owner == std::process::id()
    }

    /// Keeps the parts, one behind the other. Their lengths are whole pages.
    pub fn keep<'a>(
        self: &Arc<Self>,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> std::io::Result<Arc<Layer>> {
        if !self.is_ours() {
            return Err(std::io::Error::other("a forked process cannot keep memory of sessions"));
        }
        let len = parts.clone().map(|part| part.len() as u64).sum::<u64>();
        let start = self.end.fetch_add(len, Ordering::Relaxed);
        let layer = Arc::new(Layer { arena: Arc::clone(self), start, len });
        let mut at = start;
        for part in parts {
            self.file.write_all_at(part, at)?;
            at += part.len() as u64;
        }
        Ok(layer)
    }
}

pub struct Layer {
    arena: Arc<Arena>,
    start: u64,
    len: u64,
}

impl Layer {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        self.arena.file.read_exact_at(buffer, self.start + offset)
    }
}

impl Drop for Layer {
    fn drop(&mut self) {
        if !self.arena.is_ours() {
            return;
        }
        // Failing means that the memory is held until the process ends; there is nobody to tell.
        let _ = rustix::fs::fallocate(
            &self.arena.file,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            self.start,
            self.len,
        );
    }
}

/// A part of a linear memory that is a view of a layer.
#[derive(Clone)]
pub struct Extent {
    len: usize,
    layer: Arc<Layer>,
    offset: u64,
}

impl Extent {
    pub fn new(len: usize, layer: Arc<Layer>, offset: u64) -> Extent {
        Extent { len, layer, offset }
    }

    fn part(&self, skip: usize, len: usize) -> Extent {
        Extent { len, layer: Arc::clone(&self.layer), offset: self.offset + skip as u64 }
    }
}

/// Which parts of a linear memory are views of layers, by address.
#[derive(Clone, Default)]
pub struct Extents(BTreeMap<usize, Extent>);

impl Extents {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.0.iter().map(|(start, extent)| *start..*start + extent.len)
    }

    /// Puts a view at an address, over whatever is there.
    pub fn insert(&mut self, at: usize, extent: Extent) {
        self.carve(at..at + extent.len);
        self.0.insert(at, extent);
    }

    fn carve(&mut self, hole: Range<usize>) {
        let touched: Vec<usize> = self
            .0
            .range(..hole.end)
            .rev()
            .take_while(|(start, extent)| **start + extent.len > hole.start)
            .map(|(start, _)| *start)
            .collect();
        for start in touched {
            let Some(old) = self.0.remove(&start) else { continue };
            let end = start + old.len;
            if start < hole.start {
                self.0.insert(start, old.part(0, hole.start - start));
            }
            if end > hole.end {
                self.0.insert(hole.end, old.part(hole.end - start, end - hole.end));
            }
        }
    }

    /// Bytes shown, and bytes of the layers they are held by: the rest is waste.
    pub fn weigh(&self) -> (u64, u64) {
        let shown = self.0.values().map(|extent| extent.len as u64).sum();
        let layers: BTreeMap<u64, u64> =
            self.0.values().map(|extent| (extent.layer.start, extent.layer.len)).collect();
        (shown, layers.values().sum())
    }

    /// Maps every view.
    ///
    /// # Safety
    /// Nobody may hold references into the mapping.
    pub unsafe fn map(&self, mapping: &Mapping) -> rustix::io::Result<()> {
        for (start, extent) in &self.0 {
            let offset = extent.layer.start + extent.offset;
            // SAFETY: the caller's promise.
            unsafe {
                mapping.cover_with_file(
                    *start..*start + extent.len,
                    &extent.layer.arena.file,
                    offset,
                )
            }?;
        }
        Ok(())
    }

    /// Calls `visit` with every page shown.
    pub fn for_each_page(
        &self,
        mut visit: impl FnMut(usize, &[u8]) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let mut piece = vec![0; READ_BYTES];
        for (start, extent) in &self.0 {
            for skip in (0..extent.len).step_by(READ_BYTES) {
                let piece = &mut piece[..READ_BYTES.min(extent.len - skip)];
                extent.layer.read(extent.offset + skip as u64, piece)?;
                for (index, page) in piece.chunks_exact(PAGE).enumerate() {
                    visit(*start + skip + index * PAGE, page)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(arena: &Arc<Arena>, parts: &[(usize, usize, u8)]) -> Extents {
        let mut extents = Extents::default();
        for (page, pages, byte) in parts {
            let contents = vec![*byte; pages * PAGE];
            let layer = arena.keep([&contents[..]].into_iter()).unwrap();
            extents.insert(page * PAGE, Extent::new(contents.len(), layer, 0));
        }
        extents
    }

    fn seen(extents: &Extents) -> Vec<(usize, u8)> {
        let mut seen = Vec::new();
        extents
            .for_each_page(|at, page| {
                seen.push((at / PAGE, page[7]));
                Ok(())
            })
            .unwrap();
        seen
    }

    #[test]
    fn a_later_view_covers_the_middle_of_an_earlier_one() {
        let arena = Arc::new(Arena::new().unwrap());
        let extents = extents(&arena, &[(1, 4, 7), (2, 2, 8), (9, 1, 9)]);
        assert_eq!(seen(&extents), [(1, 7), (2, 8), (3, 8), (4, 7), (9, 9)]);
        assert_eq!(extents.weigh(), (5 * PAGE as u64, 7 * PAGE as u64));
        assert_eq!(extents.len(), 4);
    }

    #[test]
    fn a_later_view_covers_several_whole_ones() {
        let arena = Arc::new(Arena::new().unwrap());
        let extents = extents(&arena, &[(1, 1, 1), (2, 1, 2), (3, 2, 3), (0, 4, 4)]);
        assert_eq!(seen(&extents), [(0, 4), (1, 4), (2, 4), (3, 4), (4, 3)]);
    }

    #[test]
    fn memory_of_a_layer_nobody_uses_is_given_back() {
        let arena = Arc::new(Arena::new().unwrap());
        let blocks = || std::os::unix::fs::MetadataExt::blocks(&arena.file.metadata().unwrap());
        let extents = extents(&arena, &[(0, 64, 1)]);
        let copy = extents.clone();
        assert!(blocks() > 0);
        drop(extents);
        assert!(blocks() > 0, "a fork still uses it");
        drop(copy);
        assert_eq!(blocks(), 0);
    }
}
