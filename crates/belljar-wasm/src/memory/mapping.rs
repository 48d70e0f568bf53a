//! Address space as values: the only place that maps, protects or releases memory.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::io::Result;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

use super::pagemap;

pub const PAGE: usize = 4096;

/// A range of address space, released when dropped.
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a `Mapping` is only an owned range of address space; it holds no thread-bound state, and
// every method that touches the memory behind it is unsafe and states who may call it when.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves inaccessible address space that costs no memory.
    pub fn reserve(len: usize) -> Result<Mapping> {
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        Mapping::from_raw(base, len)
    }

    /// Maps the first `len` bytes of a file for reading.
    pub fn read_only(file: &File, len: usize) -> Result<Mapping> {
        // SAFETY: as in `reserve`. The file lives in a directory only this user can write and is
        // replaced by renaming, never rewritten, so its contents do not change under the mapping.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ,
                MapFlags::SHARED,
                file.as_fd(),
                0,
            )
        }?;
        Mapping::from_raw(base, len)
    }

    fn from_raw(base: *mut std::ffi::c_void, len: usize) -> Result<Mapping> {
        let base = NonNull::new(base.cast()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(Mapping { base, len })
    }

    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Puts a private, writable view of a file, from `offset` on, over a part.
    ///
    /// # Safety
    /// Nobody may hold references into it.
    pub unsafe fn cover_with_file(
        &self,
        range: Range<usize>,
        file: &File,
        offset: u64,
    ) -> Result<()> {
        self.check(range.clone())?;
        if range.is_empty() {
            return Ok(());
        }
        // SAFETY: MAP_FIXED replaces pages inside the range this value owns; the caller promises
        // that nobody looks at them.
        unsafe {
            rustix::mm::mmap(
                self.base().add(range.start).cast(),
                range.len(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE,
                file.as_fd(),
                offset,
            )
        }?;
        Ok(())
    }

    /// Makes a part what [`Mapping::reserve`] gives: inaccessible, empty, of no file.
    ///
    /// # Safety
    /// Nobody may hold references into it.
    pub unsafe fn reserve_again(&self, range: Range<usize>) -> Result<()> {
        self.check(range.clone())?;
        if range.is_empty() {
            return Ok(());
        }
        // SAFETY: as in `cover_with_file`.
        unsafe {
            rustix::mm::mmap_anonymous(
                self.base().add(range.start).cast(),
                range.len(),
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE,
            )
        }?;
        Ok(())
    }

    /// Makes a part readable and writable.
    pub fn open(&self, range: Range<usize>) -> Result<()> {
        self.protect(range, MprotectFlags::READ | MprotectFlags::WRITE)
    }

    /// Makes a part inaccessible.
    ///
    /// # Safety
    /// Nobody may hold references into it.
    pub unsafe fn close(&self, range: Range<usize>) -> Result<()> {
        self.protect(range, MprotectFlags::empty())
    }

    /// Whether a part may hold private pages.
    pub fn has_memory(&self, range: Range<usize>) -> bool {
        let base = self.base() as usize;
        let mut found = false;
        let asked = pagemap::written_pages(base + range.start..base + range.end, |_| found = true);
        found || asked.is_err()
    }

    /// Drops the private pages of a part: it reads as its file again, or as zeros.
    ///
    /// # Safety
    /// Nobody may hold references into it.
    pub unsafe fn forget(&self, range: Range<usize>) -> Result<()> {
        self.check(range.clone())?;
        if range.is_empty() {
            return Ok(());
        }
        // SAFETY: the range is ours (checked); the caller promises that nobody looks at it.
        unsafe {
            rustix::mm::madvise(
                self.base().add(range.start).cast(),
                range.len(),
                Advice::LinuxDontNeed,
            )
        }
    }

    fn protect(&self, range: Range<usize>, flags: MprotectFlags) -> Result<()> {
        self.check(range.clone())?;
        if range.is_empty() {
            return Ok(());
        }
        // SAFETY: the range is ours (checked); opening cannot invalidate references, and `close`
        // passes the duty on to its caller.
        unsafe { rustix::mm::mprotect(self.base().add(range.start).cast(), range.len(), flags) }
    }

    fn check(&self, range: Range<usize>) -> Result<()> {
        if range.start > range.end || range.end > self.len {
            Err(rustix::io::Errno::INVAL)
        } else {
            Ok(())
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value owned the range and is gone. Failure (an invalid range) is impossible
        // by construction, and there is nothing to do about it here.
        let _ = unsafe { rustix::mm::munmap(self.base().cast(), self.len) };
    }
}
