//! Which pages of a private mapping have been written, asked of the kernel in one call.
//!
//! `PAGEMAP_SCAN` (Linux 6.7) walks the page tables of a range and reports runs of pages in the
//! categories asked for. A page of a `MAP_PRIVATE` file mapping that was written is no longer a
//! page of the file, so "present and not of the file" is exactly "differs, or may differ, from
//! the image".

use std::fs::File;
use std::ops::Range;
use std::sync::OnceLock;

use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, opcode};

/// Runs of pages fetched from the kernel at once; more simply take another call.
const REGIONS_PER_CALL: usize = 256;

const CATEGORY_FILE: u64 = 1 << 2;
const CATEGORY_PRESENT: u64 = 1 << 3;
const CATEGORY_SWAPPED: u64 = 1 << 4;

// The kernel speaks of 64-bit addresses, and so do we.
const _: () = assert!(size_of::<usize>() == 8);

/// The kernel's `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PageRegion {
    start: usize,
    end: usize,
    categories: u64,
}

/// The kernel's `struct pm_scan_arg`.
#[repr(C)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_any_of: u64,
    return_mask: u64,
}

struct Scan<'a>(&'a mut ScanArguments);

// SAFETY: the opcode is PAGEMAP_SCAN, whose argument is a `struct pm_scan_arg`; `as_ptr` points at
// one that outlives the call, and the kernel writes only into it and into the region buffer it names.
unsafe impl Ioctl for Scan<'_> {
    type Output = usize;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        opcode::read_write::<ScanArguments>(b'f', 16)
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(
        out: IoctlOutput,
        _: *mut std::ffi::c_void,
    ) -> rustix::io::Result<usize> {
        Ok(usize::try_from(out).unwrap_or(0))
    }
}

/// Calls `visit` with every run of written pages in `range` (addresses of this process).
///
/// `Err` means that the kernel cannot tell; nothing or a part has been visited then.
pub fn written_pages(
    range: Range<usize>,
    mut visit: impl FnMut(Range<usize>),
) -> rustix::io::Result<()> {
    let Some(pagemap) = pagemap() else { return Err(rustix::io::Errno::NOSYS) };
    let mut regions = [PageRegion::default(); REGIONS_PER_CALL];
    let mut start = range.start as u64;
    let end = range.end as u64;
    while start < end {
        let mut arguments = ScanArguments {
            size: size_of::<ScanArguments>() as u64,
            flags: 0,
            start,
            end,
            walk_end: 0,
            regions: regions.as_mut_ptr() as u64,
            regions_len: REGIONS_PER_CALL as u64,
            max_pages: 0,
            category_inverted: CATEGORY_FILE,
            category_mask: CATEGORY_FILE,
            category_any_of: CATEGORY_PRESENT | CATEGORY_SWAPPED,
            // With nothing asked to be returned, neighbouring pages come as one run.
            return_mask: 0,
        };
        // SAFETY: `Scan` upholds the contract of PAGEMAP_SCAN (see its impl); `regions` outlives the call.
        let found = unsafe { rustix::ioctl::ioctl(pagemap, Scan(&mut arguments)) }?;
        for region in regions.iter().take(found) {
            visit(region.start..region.end);
        }
        if arguments.walk_end <= start {
            return Err(rustix::io::Errno::IO);
        }
        start = arguments.walk_end;
    }
    Ok(())
}

/// The page tables of this process. A forked child must not use its parent's: it gets none, and
/// its slots are reset without them.
fn pagemap() -> Option<&'static File> {
    static PAGEMAP: OnceLock<(u32, Option<File>)> = OnceLock::new();
    let me = std::process::id();
    let (owner, file) = PAGEMAP.get_or_init(|| (me, File::open("/proc/self/pagemap").ok()));
    file.as_ref().filter(|_| *owner == me)
}
