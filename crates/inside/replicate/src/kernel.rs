//! The system calls for memory. Placement is a preference: if the kernel or a filter refuses it,
//! memory lies where it is touched first, and `Copies::homes` reports that.

use core::ffi::c_int;
use core::ptr::NonNull;

use numapilot_syscall::{Refused, call};

/// Maps new zeroed memory, which is not touched yet and counts towards the limits of the process.
pub fn map(bytes: usize) -> Result<NonNull<u8>, c_int> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    // SAFETY: a new mapping at an address that the kernel chooses aliases nothing.
    let start = unsafe { call(libc::SYS_mmap, [0, bytes, protection, flags, usize::MAX, 0]) };
    let start = start.map_err(|Refused(errno)| errno)?;
    NonNull::new(start as *mut u8).ok_or(libc::ENOMEM)
}

/// Returns a mapping.
///
/// # Safety
/// The range is a mapping of ours that is no longer used.
pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: by contract; after a failure it stays mapped.
    let _ = unsafe { call(libc::SYS_munmap, [start.as_ptr() as usize, bytes, 0, 0, 0, 0]) };
}

/// Finds the node of each page: a negative error number if there is none, such as `-ENOENT` for a
/// page that was never touched.
///
/// Both slices have the same length.
pub fn nodes_of(pages: &[usize], nodes: &mut [c_int]) -> Result<(), c_int> {
    let count = pages.len().min(nodes.len());
    let arguments = [0, count, pages.as_ptr() as usize, 0, nodes.as_mut_ptr() as usize, 0];
    // SAFETY: both lists have `count` entries. Without a list of targets, the kernel only looks
    // addresses up.
    unsafe { call(libc::SYS_move_pages, arguments) }.map(drop).map_err(|Refused(errno)| errno)
}

/// Gives every page of a range a frame of its own, as a write would, without changing the contents
/// (MADV_POPULATE_WRITE, Linux 5.14).
pub fn populate(start: usize, bytes: usize) -> Result<(), c_int> {
    const POPULATE_WRITE: usize = 23;
    loop {
        let arguments = [start, bytes, POPULATE_WRITE, 0, 0, 0];
        // SAFETY: changes no contents; memory that is not mapped or not writable is refused.
        match unsafe { call(libc::SYS_madvise, arguments) } {
            Err(Refused(libc::EINTR | libc::EAGAIN)) => {}
            result => return result.map(drop).map_err(|Refused(errno)| errno),
        }
    }
}

/// Makes a range of ours zeroes in the child of a fork (MADV_WIPEONFORK, Linux 4.14).
pub fn wipe_on_fork(start: *mut u8, bytes: usize) {
    const WIPE_ON_FORK: usize = 18;
    // SAFETY: it changes nothing in this process; before 4.14 it is refused.
    let _ = unsafe { call(libc::SYS_madvise, [start as usize, bytes, WIPE_ON_FORK, 0, 0, 0]) };
}
