//! The contents of a linear memory as a value: taken from one slot, put into others.
//!
//! Only what differs from the image is touched. Long runs of written pages are moved into a layer
//! and from then on mapped, by their session and by every fork of it, copy-on-write: they cost
//! nothing again until they are written again. Short runs, scattered over the interpreter's own
//! objects, are copied: mapping each of them would cost more.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::layers::{Extent, Extents};
use super::mapping::PAGE;
use super::pagemap;
use super::slots::{Known, SlotMemory, SlotPool};

/// From this length on a run of pages is worth a mapping of its own.
const LONG_RUN: usize = 16 * PAGE;

/// Runs with no more than this between them count as one.
const NEIGHBOURS: usize = 4 * PAGE;

/// A memory at rest keeps this much copied-on-write; more is moved into a layer, so that saving it
/// later costs what was written since.
const RESTING_BYTES: usize = 2 * 1024 * 1024;

/// Views of layers mapped in this process. The kernel allows some 65 000 mappings; the rest is for
/// the program we live in.
const MAX_MAPPED: usize = 16_000;

/// A session rewrites its layers when they hold this much more than it shows.
const MAX_WASTE: u64 = 8 * 1024 * 1024;

static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// Views of layers that are not mapped any more.
pub fn count_unmapped(extents: &Extents) {
    MAPPED.fetch_sub(extents.len(), Ordering::Relaxed);
}

fn may_map(more: usize) -> bool {
    MAPPED.load(Ordering::Relaxed).saturating_add(more) <= MAX_MAPPED
}

/// What a linear memory held at some time. Cheap to share; keeps what it needs alive.
#[derive(Clone)]
pub struct MemoryState {
    size: usize,
    extents: Extents,
    copied: Arc<Copied>,
}

struct Copied {
    /// Addresses, in order.
    runs: Vec<Range<usize>>,
    /// Their contents, one behind the other.
    contents: Vec<u8>,
    /// Whom the buffer is given back to.
    pool: Arc<SlotPool>,
}

impl Drop for Copied {
    fn drop(&mut self) {
        self.pool.give_buffer(std::mem::take(&mut self.contents));
    }
}

impl Copied {
    fn parts(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut rest = &self.contents[..];
        self.runs.iter().map(move |run| {
            let (part, behind) = rest.split_at(run.len());
            rest = behind;
            (run.start, part)
        })
    }
}

impl MemoryState {
    /// How large the memory was.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Bytes of it that are held apart from the image.
    pub fn held_bytes(&self) -> u64 {
        self.extents.weigh().0 + self.copied.contents.len() as u64
    }

    /// Calls `visit` with the address and contents of every page that differs from a new memory.
    pub fn for_each_page(
        &self,
        pool: &SlotPool,
        mut visit: impl FnMut(usize, &[u8]) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let image = pool.image().contents();
        let mut tell = |at: usize, page: &[u8]| {
            let same = match image.get(at..at + PAGE) {
                Some(original) => original == page,
                None => page.iter().all(|byte| *byte == 0),
            };
            if same { Ok(()) } else { visit(at, page) }
        };
        let pages = self.copied.parts().flat_map(|(start, part)| {
            part.chunks_exact(PAGE)
                .enumerate()
                .map(move |(index, page)| (start + index * PAGE, page))
        });
        let mut copied = pages.peekable();
        // Copied pages lie over mapped ones.
        self.extents.for_each_page(|at, page| {
            while let Some((at, page)) = copied.next_if(|(start, _)| *start < at) {
                tell(at, page)?;
            }
            match copied.next_if(|(start, _)| *start == at) {
                Some((_, newer)) => tell(at, newer),
                None => tell(at, page),
            }
        })?;
        copied.try_for_each(|(at, page)| tell(at, page))
    }

    /// The state in which these pages, rising addresses and their contents one behind the other,
    /// differ from a new memory.
    pub fn from_pages(
        pool: &Arc<SlotPool>,
        size: usize,
        addresses: &[usize],
        contents: Vec<u8>,
    ) -> std::io::Result<MemoryState> {
        let mut extents = Extents::default();
        let mut copied = Copied { runs: runs_of(addresses), contents, pool: Arc::clone(pool) };
        if copied.contents.len() > RESTING_BYTES && pool.arena().is_ours() {
            let mut short =
                Copied { runs: Vec::new(), contents: Vec::new(), pool: Arc::clone(pool) };
            for (start, part) in copied.parts() {
                if part.len() >= LONG_RUN {
                    let layer = pool.arena().keep(std::iter::once(part))?;
                    extents.insert(start, Extent::new(part.len(), layer, 0));
                } else {
                    short.runs.push(start..start + part.len());
                    short.contents.extend_from_slice(part);
                }
            }
            copied = short;
        }
        Ok(MemoryState { size, extents, copied: Arc::new(copied) })
    }
}

/// Pages next to each other as runs.
fn runs_of(addresses: &[usize]) -> Vec<Range<usize>> {
    let runs = addresses.chunk_by(|before, after| before + PAGE == *after);
    runs.filter_map(|run| Some(*run.first()?..*run.last()? + PAGE)).collect()
}

impl SlotMemory {
    /// Takes the contents. With `settle`, long runs are moved into a layer first, so that the next
    /// time costs less.
    ///
    /// # Safety
    /// No guest code runs in this memory, and nobody holds references into it.
    pub unsafe fn capture(&self, settle: bool) -> std::io::Result<MemoryState> {
        if let Some(state) = self.known().as_ref().and_then(|known| known.state.clone()) {
            return Ok(state);
        }
        let mut runs = self.written_runs()?;
        if settle {
            // SAFETY: the caller's promise.
            runs = unsafe { self.settle(runs) }?;
        }
        let mut contents = self.pool().take_buffer();
        contents.reserve(runs.iter().map(Range::len).sum());
        for run in &runs {
            // SAFETY: the caller's promise.
            contents.extend_from_slice(unsafe { self.bytes(run.clone()) }?);
        }
        let extents = self.extents().clone();
        let copied = Copied { runs: runs.clone(), contents, pool: Arc::clone(self.pool()) };
        let state = MemoryState { size: self.size(), extents, copied: Arc::new(copied) };
        *self.known() = Some(Known::new(runs, settle.then(|| state.clone())));
        Ok(state)
    }

    /// Called when a cell has ended: what it wrote in bulk is moved into a layer now.
    ///
    /// # Safety
    /// As for `capture`.
    pub unsafe fn rest(&self) -> std::io::Result<()> {
        let mut runs = self.written_runs()?;
        if runs.iter().map(Range::len).sum::<usize>() > RESTING_BYTES {
            // SAFETY: the caller's promise.
            runs = unsafe { self.settle(runs) }?;
        }
        *self.known() = Some(Known::new(runs, None));
        Ok(())
    }

    /// Puts contents into this memory, which is new and has been grown to their size.
    ///
    /// # Safety
    /// As for `capture`.
    pub unsafe fn apply(&self, state: &MemoryState) -> std::io::Result<()> {
        if self.size() != state.size || !self.extents().is_empty() {
            return Err(std::io::Error::other("the memory is not a new one of the right size"));
        }
        self.touched();
        if may_map(state.extents.len()) {
            MAPPED.fetch_add(state.extents.len(), Ordering::Relaxed);
            *self.extents() = state.extents.clone();
            // SAFETY: the caller's promise.
            unsafe { state.extents.map(self.mapping()?) }?;
        } else {
            // SAFETY: the caller's promise.
            state.extents.for_each_page(|at, page| unsafe { self.put(at, page) })?;
        }
        for (at, part) in state.copied.parts() {
            // SAFETY: the caller's promise.
            unsafe { self.put(at, part) }?;
        }
        Ok(())
    }

    /// Moves long runs into a layer and maps it in their place; gives back the others.
    ///
    /// # Safety
    /// As for `capture`.
    unsafe fn settle(&self, runs: Vec<Range<usize>>) -> std::io::Result<Vec<Range<usize>>> {
        let mut extents = self.extents();
        let (shown, held) = extents.weigh();
        let runs = if held > 2 * shown + MAX_WASTE {
            joined(&runs.into_iter().chain(extents.ranges()).collect::<Vec<_>>())
        } else {
            runs
        };
        let mut long = joined(&runs);
        long.retain(|run| run.len() >= LONG_RUN);
        // Carving a hole into an old view makes two of it.
        if long.is_empty() || !may_map(2 * long.len()) || !self.pool().arena().is_ours() {
            return Ok(runs);
        }
        let mut short = runs;
        short.retain(|run| !long.iter().any(|long| long.contains(&run.start)));
        // SAFETY: the caller's promise; `written_runs` gives ranges inside the memory.
        let parts = long.iter().map(|run| unsafe { self.bytes(run.clone()) });
        let parts = parts.collect::<std::io::Result<Vec<_>>>()?;
        let layer = self.pool().arena().keep(parts.iter().copied())?;
        // Kept until the new views are there: the old ones show them until then.
        let old = extents.clone();
        let mut offset = 0;
        let mut fresh = Extents::default();
        for run in &long {
            let extent = Extent::new(run.len(), Arc::clone(&layer), offset);
            offset += run.len() as u64;
            fresh.insert(run.start, extent.clone());
            extents.insert(run.start, extent);
        }
        MAPPED.fetch_add(extents.len(), Ordering::Relaxed);
        MAPPED.fetch_sub(old.len(), Ordering::Relaxed);
        // SAFETY: the caller's promise. The views show what the pages they replace held.
        unsafe { fresh.map(self.mapping()?) }?;
        Ok(short)
    }

    /// The pages that are no longer those of the image or a layer, as runs of addresses in order.
    fn written_runs(&self) -> std::io::Result<Vec<Range<usize>>> {
        if let Some(known) = self.known().take().filter(Known::holds) {
            return Ok(known.runs);
        }
        let base = self.mapping()?.base() as usize;
        let mut runs: Vec<Range<usize>> = Vec::new();
        let asked = pagemap::written_pages(base..base + self.size(), |run| {
            let run = run.start - base..run.end - base;
            match runs.last_mut() {
                Some(last) if last.end == run.start => last.end = run.end,
                _ => runs.push(run),
            }
        });
        match asked {
            Ok(()) => Ok(runs),
            // The kernel cannot tell: everything may have been written. Pages that are as they were
            // fall out when a snapshot is written.
            Err(_) => Ok(std::iter::once(0..self.size()).collect()),
        }
    }

    /// # Safety
    /// As for `capture`; the slice must not be used after guest code has run again.
    unsafe fn bytes(&self, range: Range<usize>) -> std::io::Result<&[u8]> {
        if range.end > self.size() || range.start > range.end {
            return Err(std::io::Error::other("a run lies outside its memory"));
        }
        // SAFETY: the range is inside the accessible part (checked); the caller's promise.
        Ok(unsafe {
            std::slice::from_raw_parts(self.mapping()?.base().add(range.start), range.len())
        })
    }

    /// # Safety
    /// As for `capture`.
    unsafe fn put(&self, at: usize, bytes: &[u8]) -> std::io::Result<()> {
        if at.checked_add(bytes.len()).is_none_or(|end| end > self.size()) {
            return Err(std::io::Error::other("a page lies outside its memory"));
        }
        // SAFETY: the range is inside the accessible part (checked); the caller's promise.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.mapping()?.base().add(at),
                bytes.len(),
            );
        }
        Ok(())
    }
}

/// Runs close to each other, or overlapping, as one.
fn joined(runs: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut sorted = runs.to_vec();
    sorted.sort_unstable_by_key(|run| run.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(runs.len());
    for run in sorted {
        match joined.last_mut() {
            Some(last) if run.start <= last.end + NEIGHBOURS => last.end = last.end.max(run.end),
            _ => joined.push(run),
        }
    }
    joined
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
