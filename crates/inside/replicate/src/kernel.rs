//! The system calls. Placement is a preference: where the kernel or a filter refuses, memory lies
//! where it is touched first, and `Copies::homes` reports that.

use core::ffi::{CStr, c_int, c_long, c_void};
use core::ptr::{NonNull, null_mut};

/// Node numbers below 1024, one bit each: the most that Linux supports.
pub type NodeMask = [u64; 16];
/// Bits of a [`NodeMask`], plus one, as the kernel counts the bits of a mask that it reads.
const NODE_BITS: usize = 1024 + 1;

/// The error number of the last call.
pub fn errno() -> c_int {
    // SAFETY: the location is valid for the calling thread.
    unsafe { *libc::__errno_location() }
}

fn check(result: c_long) -> Result<c_long, c_int> {
    if result < 0 { Err(errno()) } else { Ok(result) }
}

/// Bytes of a page.
pub fn page_bytes() -> usize {
    // SAFETY: takes a constant.
    unsafe { libc::getauxval(libc::AT_PAGESZ) as usize }
}

/// Maps zeroed memory, untouched and charged to the process's limits.
pub fn map(bytes: usize) -> Result<NonNull<u8>, c_int> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address that the kernel chooses aliases nothing.
    let start = unsafe { libc::mmap(null_mut(), bytes, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(errno());
    }
    NonNull::new(start.cast()).ok_or(libc::ENOMEM)
}

/// Unmaps a mapping.
///
/// # Safety
/// The range is a mapping of this crate that nothing uses any more.
pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: by contract.
    unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
}

/// Prefers a node for the pages of a range (MPOL_PREFERRED). If `moved`, pages that are already in
/// memory move there.
pub fn prefer_node(start: *const u8, bytes: usize, node: u32, moved: bool) -> Result<(), c_int> {
    const PREFERRED: c_int = 1;
    const MOVE: c_int = 2;
    let mask = mask_of(node);
    let flags = if moved { MOVE } else { 0 };
    // SAFETY: the mask has the bits that are named; a policy changes no contents.
    check(unsafe {
        libc::syscall(libc::SYS_mbind, start, bytes, PREFERRED, mask.as_ptr(), NODE_BITS, flags)
    })
    .map(drop)
}

fn mask_of(node: u32) -> NodeMask {
    let mut mask = NodeMask::default();
    if let Some(word) = mask.get_mut(node as usize / 64) {
        *word = 1 << (node % 64);
    }
    mask
}

/// Nodes that this process may use (MPOL_F_MEMS_ALLOWED): those with memory in its cpuset.
pub fn allowed_nodes() -> Result<NodeMask, c_int> {
    const MEMS_ALLOWED: c_int = 4;
    let mut mask = NodeMask::default();
    let to = mask.as_mut_ptr();
    // SAFETY: the mask has the bits that are named and outlives the call.
    check(unsafe {
        libc::syscall(libc::SYS_get_mempolicy, null_mut::<c_int>(), to, NODE_BITS, 0, MEMS_ALLOWED)
    })
    .map(|_| mask)
}

/// The memory policy of the calling thread.
pub struct ThreadPolicy {
    mode: c_int,
    mask: NodeMask,
}

impl ThreadPolicy {
    /// Prefers a node until the returned value is dropped; `None` where the kernel refuses.
    pub fn prefer(node: u32) -> Option<Self> {
        const PREFERRED: c_int = 1;
        let mut before = Self { mode: 0, mask: NodeMask::default() };
        let (mode, mask) = (&raw mut before.mode, before.mask.as_mut_ptr());
        // SAFETY: one int and a mask with the bits that are named, which outlive the call.
        check(unsafe { libc::syscall(libc::SYS_get_mempolicy, mode, mask, NODE_BITS, 0, 0) })
            .ok()?;
        set_policy(PREFERRED, &mask_of(node)).ok()?;
        Some(before)
    }
}

impl Drop for ThreadPolicy {
    fn drop(&mut self) {
        // The kernel allowed this policy before, so it allows it again.
        let _ = set_policy(self.mode, &self.mask);
    }
}

fn set_policy(mode: c_int, mask: &NodeMask) -> Result<(), c_int> {
    // An empty mask must be passed as no mask.
    let (mask, bits) = match mask.iter().all(|word| *word == 0) {
        true => (core::ptr::null(), 0),
        false => (mask.as_ptr(), NODE_BITS),
    };
    // SAFETY: no mask, or one with the bits that are named.
    check(unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask, bits) }).map(drop)
}

/// The node of each page, or a negative error number: `-ENOENT` where there is no page.
///
/// Both slices have the same length.
pub fn nodes_of(pages: &[usize], nodes: &mut [c_int]) -> Result<(), c_int> {
    let count = pages.len().min(nodes.len());
    let (pages, nodes) = (pages.as_ptr(), nodes.as_mut_ptr());
    let nowhere = null_mut::<c_void>();
    // SAFETY: both lists have `count` entries; the kernel only looks addresses up.
    check(unsafe { libc::syscall(libc::SYS_move_pages, 0, count, pages, nowhere, nodes, 0) })
        .map(drop)
}

/// Gives every page of a range its own frame, as a write that changes nothing would
/// (MADV_POPULATE_WRITE, Linux 5.14).
pub fn populate(start: usize, bytes: usize) -> Result<(), c_int> {
    const POPULATE_WRITE: c_int = 23;
    loop {
        // SAFETY: changes no contents; the kernel refuses what is not mapped or not writable.
        match check(c_long::from(unsafe {
            libc::madvise(start as *mut c_void, bytes, POPULATE_WRITE)
        })) {
            Err(libc::EINTR | libc::EAGAIN) => {}
            result => return result.map(drop),
        }
    }
}

/// Makes a range read as zeroes in the child of a fork (MADV_WIPEONFORK, Linux 4.14).
pub fn wipe_on_fork(start: *mut u8, bytes: usize) {
    const WIPE_ON_FORK: c_int = 18;
    // SAFETY: it changes nothing in this process; before 4.14 it is refused.
    unsafe { libc::madvise(start.cast(), bytes, WIPE_ON_FORK) };
}

/// The node on which the caller runs; a system call on some machines.
pub fn current_node() -> Result<u32, c_int> {
    let mut node = 0u32;
    let nothing = null_mut::<c_void>();
    // SAFETY: the kernel writes one unsigned int.
    check(unsafe { libc::syscall(libc::SYS_getcpu, nothing, &raw mut node, nothing) }).map(|_| node)
}

/// An open file, closed when dropped.
#[derive(Debug)]
pub struct File(c_int);

impl File {
    /// Opens for reading. An open that would have to wait fails instead.
    pub fn open(path: &CStr) -> Result<Self, c_int> {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: the path is a C string.
        check(c_long::from(unsafe { libc::open(path.as_ptr(), flags) }))
            .map(|file| Self(file as c_int))
    }

    /// The descriptor.
    pub fn descriptor(&self) -> c_int {
        self.0
    }

    /// Reads from an offset until `buffer` is full or the file ends; returns the number of bytes.
    pub fn read(&self, offset: usize, buffer: &mut [u8]) -> Result<usize, c_int> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.read_some(offset + filled, rest)? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(filled)
    }

    /// Reads from an offset at most once; returns 0 at the end of the file.
    pub fn read_some(&self, offset: usize, buffer: &mut [u8]) -> Result<usize, c_int> {
        loop {
            // SAFETY: pointer and length are those of the slice.
            let result = unsafe {
                let (start, offset) = (buffer.as_mut_ptr().cast(), offset as libc::off_t);
                libc::pread(self.0, start, buffer.len(), offset)
            };
            match check(result as c_long) {
                Err(libc::EINTR) => {}
                result => return result.map(|read| read as usize),
            }
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: this crate opened it, and does not use it again.
        unsafe { libc::close(self.0) };
    }
}

/// The beginning of a file, as much of it as fits; empty when the file cannot be read.
pub fn first_bytes<'a>(path: &CStr, buffer: &'a mut [u8]) -> &'a [u8] {
    let read = File::open(path).and_then(|file| file.read(0, buffer)).unwrap_or(0);
    &buffer[..read]
}
