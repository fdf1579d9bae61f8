//! The memory that the kernel shares for a perf event: its ring, and the AUX area after it. Both
//! are circular.
//!
//! Source: perf_event_open(2), "MMAP layout".

use std::io;
use std::ptr::NonNull;

/// A mapping of an event.
#[derive(Debug)]
pub struct PerfArea {
    start: NonNull<u8>,
    bytes: usize,
}

impl PerfArea {
    /// Maps this number of bytes of an event, from an offset on.
    pub fn map(descriptor: i32, bytes: usize, offset: libc::off_t) -> io::Result<Self> {
        // SAFETY: a new mapping at an address the kernel chooses aliases nothing of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                descriptor,
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { start, bytes })
    }

    /// Address of the first byte.
    pub const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Length in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies at most `length` bytes from `position` of the circular part that begins at `first`
    /// and ends with the area.
    ///
    /// # Safety
    /// The kernel must not write these bytes meanwhile.
    pub unsafe fn copy(&self, first: usize, position: u64, length: u64) -> Vec<u8> {
        let size = self.bytes.saturating_sub(first);
        let length = usize::try_from(length).unwrap_or(size).min(size);
        let at = usize::try_from(position % size.max(1) as u64).unwrap_or(0);
        let until_end = length.min(size - at);
        let mut bytes = vec![0u8; length];
        // SAFETY: `first + at + until_end` and `first + length - until_end` are at most the end of
        // the area; the caller vouches that the kernel does not write there.
        unsafe {
            let data = self.start.as_ptr().add(first);
            std::ptr::copy_nonoverlapping(data.add(at), bytes.as_mut_ptr(), until_end);
            let rest = length - until_end;
            std::ptr::copy_nonoverlapping(data, bytes.as_mut_ptr().add(until_end), rest);
        }
        bytes
    }
}

impl Drop for PerfArea {
    fn drop(&mut self) {
        // SAFETY: start and length are those of our own mmap, unmapped exactly once.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
