//! The pool of memory slots.

use std::cell::RefCell;
use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_queue::ArrayQueue;
use wasmtime::{LinearMemory, MemoryCreator, MemoryType};

use super::layers::{Arena, Extents};
use super::mapping::{Mapping, PAGE};
use super::pagemap;
use super::state::MemoryState;

/// Idle slots kept for reuse; each costs at most [`KEPT_PAGES`] of memory.
const MAX_IDLE_SLOTS: usize = 64;

/// Pages of a slot that stay resident between two tenants; what a sandbox wrote beyond that is
/// given back to the system, so one heavy user does not make a slot heavy for good.
const KEPT_PAGES: usize = 1024;

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

/// Hands out memories that hold the image, and takes them back.
pub struct SlotPool {
    image: Image,
    idle: ArrayQueue<Mapping>,
    arena: Arc<Arena>,
    buffers: ArrayQueue<Vec<u8>>,
}

impl SlotPool {
    pub fn new(image: Image) -> std::io::Result<Arc<SlotPool>> {
        let arena = Arc::new(Arena::new()?);
        let (idle, buffers) = (ArrayQueue::new(MAX_IDLE_SLOTS), ArrayQueue::new(MAX_BUFFERS));
        Ok(Arc::new(SlotPool { image, idle, arena, buffers }))
    }

    /// An empty buffer whose memory was used before: new memory costs a fault for each page.
    pub fn take_buffer(&self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    pub fn give_buffer(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= MAX_BUFFER_BYTES {
            buffer.clear();
            // A full pool lets go of it.
            let _ = self.buffers.push(buffer);
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
        let mapping = match self.idle.pop() {
            Some(mapping) if mapping.len() == capacity + guard => mapping,
            _ => self.map(capacity + guard)?,
        };
        Ok(Slot(Arc::new(SlotMemory {
            mapping: Some(mapping),
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
        (0..self.idle.len()).filter_map(|_| self.idle.pop()).all(|mapping| {
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
    /// what else was mapped over it.
    ///
    /// # Safety
    /// The tenant is gone: nobody holds references into the mapping.
    unsafe fn reset(
        &self,
        mapping: &Mapping,
        size: usize,
        extents: &Extents,
    ) -> rustix::io::Result<()> {
        let image_len = self.image.len();
        for range in extents.ranges().filter(|range| range.start < image_len) {
            let range = range.start..range.end.min(image_len);
            let offset = range.start as u64;
            // SAFETY: the caller promises that the tenant is gone.
            unsafe { mapping.cover_with_file(range, &self.image.file, offset) }?;
        }
        // SAFETY: as above.
        if unsafe { self.copy_back(mapping) }.is_err() {
            // SAFETY: as above.
            unsafe { mapping.forget(0..image_len) }?;
        }
        if extents.ranges().any(|range| range.end > image_len) {
            // SAFETY: as above.
            return unsafe { mapping.reserve_again(image_len..size) };
        }
        // SAFETY: as above.
        unsafe { mapping.forget(image_len..size) }?;
        // SAFETY: as above.
        unsafe { mapping.close(image_len..size) }
    }

    /// Copies the image over every page the tenant wrote.
    ///
    /// # Safety
    /// As for `reset`.
    unsafe fn copy_back(&self, mapping: &Mapping) -> rustix::io::Result<()> {
        let base = mapping.base() as usize;
        let mut kept = 0;
        let mut failure = Ok(());
        pagemap::written_pages(base..base + self.image.len(), |written: Range<usize>| {
            let range = written.start - base..written.end - base;
            kept += range.len() / PAGE;
            if kept > KEPT_PAGES {
                // SAFETY: the caller promises that the tenant is gone.
                failure = failure.and(unsafe { mapping.forget(range) });
            } else {
                // SAFETY: `range` lies inside the image's length on both sides, source and target
                // are different mappings, and the caller promises that the tenant is gone.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        self.image.view.base().add(range.start),
                        mapping.base().add(range.start),
                        range.len(),
                    );
                }
            }
        })?;
        failure
    }
}

/// What is known about a memory as long as nobody has written to it since.
pub(super) struct Known {
    /// The pages that were written before: asking the kernel costs as much as a small cell.
    pub runs: Vec<Range<usize>>,
    /// Its contents, if somebody wanted them: whoever forks a session often does so many times.
    pub state: Option<MemoryState>,
}

/// One linear memory in use, shared by wasmtime and by whoever saves and restores it.
pub struct SlotMemory {
    /// `None` only while dropping.
    mapping: Option<Mapping>,
    size: AtomicUsize,
    capacity: usize,
    extents: Mutex<Extents>,
    known: Mutex<Option<Known>>,
    pool: Arc<SlotPool>,
}

impl SlotMemory {
    /// Somebody is about to write into the memory.
    pub fn touched(&self) {
        *self.known() = None;
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
        // SAFETY: wasmtime has dropped its half, which it does only when the store is gone, and
        // this is the last of the others: no tenant is left.
        if unsafe { self.pool.reset(&mapping, size, &extents) }.is_ok() {
            // A full pool gives the mapping back, and dropping it unmaps.
            let _ = self.pool.idle.push(mapping);
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

thread_local! {
    /// wasmtime has no way to hand a memory's maker anything back, but makes it on the thread that
    /// asks for the instance.
    static NEWEST: RefCell<Option<Arc<SlotMemory>>> = const { RefCell::new(None) };
}

/// The memory that was made last on this thread. Each is given once.
pub fn take_newest() -> Option<Arc<SlotMemory>> {
    NEWEST.take()
}

/// What wasmtime asks for memories.
pub struct SlotCreator(pub Arc<SlotPool>);

// SAFETY: see `Slot`. Memories are not zero-filled but hold the image, which is what the modules
// compiled for this engine expect: their data segments were moved into it.
unsafe impl MemoryCreator for SlotCreator {
    fn new_memory(
        &self,
        _: MemoryType,
        minimum: usize,
        _: Option<usize>,
        reserved: Option<usize>,
        guard: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        let image_len = self.0.image_len();
        let capacity = reserved.ok_or("memories need a fixed reservation")?;
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
            Err(error) => Err(format!("no address space for a memory: {error}")),
        }
    }
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
