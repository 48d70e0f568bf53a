//! The pool of memory slots.

use std::cell::RefCell;
use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wasmtime::{LinearMemory, MemoryCreator, MemoryType};

use super::faults::FaultMark;
use super::layers::{Arena, Extents};
use super::mapping::{Mapping, PAGE};
use super::pagemap;
use super::state::MemoryState;
use crate::shelf::Shelf;

/// Idle slots kept for reuse; each costs at most [`KEPT_PAGES`] of memory.
const MAX_IDLE_SLOTS: usize = 64;

/// Pages of a slot that stay resident between two tenants; what a sandbox wrote beyond that is
/// given back to the system, so one heavy user does not make a slot heavy for good.
const KEPT_PAGES: usize = 1024;

/// Where the exceptions of one guest live. The collector uses half of it at a time: room for four
/// thousand that are held at once, and C++ holds one for each handler it is in. Whoever throws more
/// pays for a collection, which walks the stack, every four thousand times. It comes on top of what
/// a policy allows, like the native stack.
pub const EXCEPTION_HEAP_BYTES: usize = 256 * 1024;

/// Buffers kept for copies of written pages.
const MAX_BUFFERS: usize = 16;

/// Larger buffers are not kept.
const MAX_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// The memory of a booted interpreter: a file that every slot maps copy-on-write.
pub struct Image {
    file: File,
    view: Mapping,
}

impl Image {
    /// Takes a file whose length is a multiple of the page size.
    pub fn new(file: File) -> std::io::Result<Image> {
        let len = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        if len == 0 || len % PAGE != 0 {
            return Err(std::io::Error::other("the image is empty or not a whole number of pages"));
        }
        let view = Mapping::read_only(&file, len)?;
        Ok(Image { file, view })
    }

    pub fn len(&self) -> usize {
        self.view.len()
    }

    pub fn contents(&self) -> &[u8] {
        // SAFETY: the view is readable to its end, lives as long as `self` and is never written.
        unsafe { std::slice::from_raw_parts(self.view.base(), self.view.len()) }
    }
}

/// A slot between two tenants.
struct IdleSlot {
    mapping: Mapping,
    /// Pages of its own, which hold what the image holds. `None` when nobody knows them.
    own: Option<Vec<Range<usize>>>,
}

/// Hands out memories that hold the image, and takes them back.
pub struct SlotPool {
    image: Image,
    idle: Shelf<IdleSlot>,
    arena: Arc<Arena>,
    buffers: Shelf<Vec<u8>>,
}

impl SlotPool {
    pub fn new(image: Image) -> std::io::Result<Arc<SlotPool>> {
        let arena = Arc::new(Arena::new()?);
        let (idle, buffers) = (Shelf::new(MAX_IDLE_SLOTS), Shelf::new(MAX_BUFFERS));
        Ok(Arc::new(SlotPool { image, idle, arena, buffers }))
    }

    /// An empty buffer whose memory was used before: new memory costs a fault for each page.
    pub fn take_buffer(&self) -> Vec<u8> {
        self.buffers.take().unwrap_or_default()
    }

    pub fn give_buffer(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= MAX_BUFFER_BYTES {
            buffer.clear();
            // A full pool lets go of it.
            let _ = self.buffers.put(buffer);
        }
    }

    pub fn image(&self) -> &Image {
        &self.image
    }

    pub fn image_len(&self) -> usize {
        self.image.len()
    }

    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    fn take(self: &Arc<Self>, capacity: usize, guard: usize) -> rustix::io::Result<Slot> {
        let IdleSlot { mapping, own } = match self.idle.take() {
            Some(slot) if slot.mapping.len() == capacity + guard => slot,
            _ => IdleSlot { mapping: self.map(capacity + guard)?, own: None },
        };
        let arrival = own.map(|own| Arrival { own, at: FaultMark::now() });
        Ok(Slot(Arc::new(SlotMemory {
            mapping: Some(mapping),
            arrival,
            size: AtomicUsize::new(self.image.len()),
            capacity,
            extents: Mutex::default(),
            known: Mutex::default(),
            pool: Arc::clone(self),
        })))
    }

    /// Whether every idle slot is what a new tenant should find: the image, and nothing behind it.
    #[cfg(test)]
    pub fn idle_slots_are_pristine(&self) -> bool {
        let image_len = self.image.len();
        std::iter::from_fn(|| self.idle.take()).all(|IdleSlot { mapping, .. }| {
            let grown = image_len..(image_len * 4).min(mapping.len());
            let opened = mapping.open(grown.clone()).is_ok();
            // SAFETY: the slot is idle and off the queue; both parts are readable.
            let memory = unsafe { std::slice::from_raw_parts(mapping.base(), grown.end) };
            opened
                && memory[..image_len] == *self.image.contents()
                && memory[image_len..].iter().all(|byte| *byte == 0)
        })
    }

    fn map(&self, len: usize) -> rustix::io::Result<Mapping> {
        let mapping = Mapping::reserve(len)?;
        // SAFETY: the mapping is new; nobody has seen it.
        unsafe { mapping.cover_with_file(0..self.image.len(), &self.image.file, 0) }?;
        Ok(mapping)
    }

    /// Makes a used slot equal to a new one. `size` is how far its tenant had grown it, `extents`
    /// what else was mapped over it, `own` its pages, if they are known. Gives those it has now.
    ///
    /// # Safety
    /// The tenant is gone: nobody holds references into the mapping.
    unsafe fn reset(
        &self,
        mapping: &Mapping,
        size: usize,
        extents: &Extents,
        own: Option<Vec<Range<usize>>>,
    ) -> rustix::io::Result<Option<Vec<Range<usize>>>> {
        let image_len = self.image.len();
        for range in extents.ranges().filter(|range| range.start < image_len) {
            let range = range.start..range.end.min(image_len);
            let offset = range.start as u64;
            // SAFETY: the caller promises that the tenant is gone.
            unsafe { mapping.cover_with_file(range, &self.image.file, offset) }?;
        }
        let written = own.map_or_else(|| self.written(mapping), Ok);
        // SAFETY: as above.
        let kept = match written.and_then(|written| unsafe { self.copy_back(mapping, written) }) {
            Ok(kept) => Some(kept),
            Err(_) => {
                // SAFETY: as above.
                unsafe { mapping.forget(0..image_len) }?;
                None
            }
        };
        if extents.ranges().any(|range| range.end > image_len) {
            // SAFETY: as above.
            unsafe { mapping.reserve_again(image_len..size) }?;
            return Ok(kept);
        }
        // SAFETY: as above.
        unsafe { mapping.forget(image_len..size) }?;
        // SAFETY: as above.
        unsafe { mapping.close(image_len..size) }?;
        Ok(kept)
    }

    /// The pages of the image's part that are the slot's own.
    fn written(&self, mapping: &Mapping) -> rustix::io::Result<Vec<Range<usize>>> {
        let base = mapping.base() as usize;
        let mut written = Vec::new();
        pagemap::written_pages(base..base + self.image.len(), |run| {
            written.push(run.start - base..run.end - base);
        })?;
        Ok(written)
    }

    /// Copies the image over every page the tenant may have written; gives those that the slot
    /// keeps.
    ///
    /// # Safety
    /// As for `reset`; the pages lie inside the image's part.
    unsafe fn copy_back(
        &self,
        mapping: &Mapping,
        mut written: Vec<Range<usize>>,
    ) -> rustix::io::Result<Vec<Range<usize>>> {
        let mut pages = 0;
        let mut failure = Ok(());
        written.retain(|range| {
            pages += range.len() / PAGE;
            let keep = pages <= KEPT_PAGES;
            if keep {
                // SAFETY: `range` lies inside the image's length on both sides, source and target
                // are different mappings, and the caller promises that the tenant is gone.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        self.image.view.base().add(range.start),
                        mapping.base().add(range.start),
                        range.len(),
                    );
                }
            } else {
                // SAFETY: the caller promises that the tenant is gone.
                failure = failure.and(unsafe { mapping.forget(range.clone()) });
            }
            keep
        });
        failure.map(|()| written)
    }
}

/// What is known about a memory as long as nobody has written to it since.
pub(super) struct Known {
    /// The pages that were written before: asking the kernel costs as much as a small cell.
    pub runs: Vec<Range<usize>>,
    /// Its contents, if somebody wanted them: whoever forks a session often does so many times.
    pub state: Option<MemoryState>,
    /// When somebody began to write to it again. Without a page fault since, `runs` still holds.
    touched: Option<FaultMark>,
}

impl Known {
    pub fn new(runs: Vec<Range<usize>>, state: Option<MemoryState>) -> Known {
        Known { runs, state, touched: None }
    }

    /// Whether these are all the pages that were written until now.
    pub fn holds(&self) -> bool {
        self.touched.as_ref().is_none_or(FaultMark::no_fault_since)
    }
}

/// How a slot came to its tenant.
struct Arrival {
    own: Vec<Range<usize>>,
    at: FaultMark,
}

/// One linear memory in use, shared by wasmtime and by whoever saves and restores it.
pub struct SlotMemory {
    /// `None` only while dropping.
    mapping: Option<Mapping>,
    arrival: Option<Arrival>,
    size: AtomicUsize,
    capacity: usize,
    extents: Mutex<Extents>,
    known: Mutex<Option<Known>>,
    pool: Arc<SlotPool>,
}

impl SlotMemory {
    /// Somebody is about to write into the memory.
    pub fn touched(&self) {
        if let Some(known) = &mut *self.known() {
            known.state = None;
            known.touched.get_or_insert_with(FaultMark::now);
        }
    }

    /// As for `extents`.
    pub(super) fn known(&self) -> MutexGuard<'_, Option<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn pool(&self) -> &Arc<SlotPool> {
        &self.pool
    }

    /// How far it has grown.
    pub fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    pub(super) fn mapping(&self) -> rustix::io::Result<&Mapping> {
        self.mapping.as_ref().ok_or(rustix::io::Errno::FAULT)
    }

    /// What is mapped over the image. Nothing panics while holding the lock; if it did, the value
    /// would still be whole.
    pub(super) fn extents(&self) -> MutexGuard<'_, Extents> {
        self.extents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SlotMemory {
    fn drop(&mut self) {
        let Some(mapping) = self.mapping.take() else { return };
        let (size, extents) = (self.size(), std::mem::take(&mut *self.extents()));
        // Views of layers were mapped over pages of its own, and taking them away is no fault.
        let arrival =
            self.arrival.take().filter(|arrival| extents.is_empty() && arrival.at.no_fault_since());
        // SAFETY: wasmtime has dropped its half, which it does only when the store is gone, and
        // this is the last of the others: no tenant is left.
        let reset = unsafe {
            self.pool.reset(&mapping, size, &extents, arrival.map(|arrival| arrival.own))
        };
        if let Ok(own) = reset {
            // A full pool gives the mapping back, and dropping it unmaps.
            let _ = self.pool.idle.put(IdleSlot { mapping, own });
        }
        super::state::count_unmapped(&extents);
    }
}

/// wasmtime's half of a linear memory.
struct Slot(Arc<SlotMemory>);

// SAFETY: `base` is stable for the slot's life, `capacity` bytes are reserved behind it plus the
// guard that wasmtime asked for, exactly `size` bytes are accessible, and growth never moves.
unsafe impl LinearMemory for Slot {
    fn byte_size(&self) -> usize {
        self.0.size()
    }

    fn byte_capacity(&self) -> usize {
        self.0.capacity
    }

    fn grow_to(&mut self, new_size: usize) -> wasmtime::Result<()> {
        let size = self.0.size();
        if new_size < size || new_size > self.0.capacity {
            return Err(wasmtime::format_err!("a memory cannot grow to {new_size} bytes"));
        }
        self.0.touched();
        let mapping = self.0.mapping().map_err(std::io::Error::from)?;
        mapping.open(size..new_size).map_err(std::io::Error::from)?;
        self.0.size.store(new_size, Ordering::Relaxed);
        Ok(())
    }

    fn as_ptr(&self) -> *mut u8 {
        self.0.mapping.as_ref().map_or(std::ptr::null_mut(), Mapping::base)
    }
}

/// The memory that exceptions live in: no slot, and never saved. They live while guest code is on
/// the stack, and guests are saved when none is.
struct ExceptionHeap(Mapping);

impl ExceptionHeap {
    fn new(guard: usize) -> rustix::io::Result<ExceptionHeap> {
        let mapping = Mapping::reserve(EXCEPTION_HEAP_BYTES + guard)?;
        mapping.open(0..EXCEPTION_HEAP_BYTES)?;
        Ok(ExceptionHeap(mapping))
    }
}

// SAFETY: the mapping is the heap's own and new, so zero-filled; its first `EXCEPTION_HEAP_BYTES` are
// accessible and the guard behind them is not, for the heap's whole life.
unsafe impl LinearMemory for ExceptionHeap {
    fn byte_size(&self) -> usize {
        EXCEPTION_HEAP_BYTES
    }

    fn byte_capacity(&self) -> usize {
        EXCEPTION_HEAP_BYTES
    }

    fn grow_to(&mut self, _: usize) -> wasmtime::Result<()> {
        Err(wasmtime::format_err!("the heap of exceptions does not grow"))
    }

    fn as_ptr(&self) -> *mut u8 {
        self.0.base()
    }
}

thread_local! {
    /// wasmtime has no way to hand a memory's maker anything back, but makes it on the thread that
    /// asks for the instance.
    static NEWEST: RefCell<Option<Arc<SlotMemory>>> = const { RefCell::new(None) };
}

/// The memory that was made last on this thread. Each is given once.
pub fn take_newest() -> Option<Arc<SlotMemory>> {
    NEWEST.take()
}

/// What wasmtime asks for memories: the linear one and, before it, the heap of a guest that throws.
pub struct SlotCreator(pub Arc<SlotPool>);

// SAFETY: see `Slot` and `ExceptionHeap`. Linear memories are not zero-filled but hold the image,
// which is what the modules compiled for this engine expect: their data segments were moved into it.
unsafe impl MemoryCreator for SlotCreator {
    fn new_memory(
        &self,
        _: MemoryType,
        minimum: usize,
        _: Option<usize>,
        reserved: Option<usize>,
        guard: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        let no_space = |error| format!("no address space for a memory: {error}");
        let image_len = self.0.image_len();
        let capacity = reserved.ok_or("memories need a fixed reservation")?;
        // Linear memories are given far more than that: see the engine's settings.
        if capacity == EXCEPTION_HEAP_BYTES {
            return match ExceptionHeap::new(guard) {
                Ok(heap) => Ok(Box::new(heap)),
                Err(error) => Err(no_space(error)),
            };
        }
        if minimum != image_len || capacity < image_len {
            return Err(format!(
                "the module wants {minimum} bytes of memory, the image has {image_len}"
            ));
        }
        match self.0.take(capacity, guard) {
            Ok(slot) => {
                NEWEST.set(Some(Arc::clone(&slot.0)));
                Ok(Box::new(slot))
            }
            Err(error) => Err(no_space(error)),
        }
    }
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
