//! The AUX area of a perf event: where a PMU writes data of its own format, about which the
//! ring holds records.
//!
//! Source: perf_event_open(2), "aux_head" and `PERF_RECORD_AUX`.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings as abi;

/// Its size: a power of two.
const BYTES: usize = 1 << 20;

/// An AUX area.
#[derive(Debug)]
pub struct AuxArea {
    start: NonNull<u8>,
    header: NonNull<abi::perf_event_mmap_page>,
}

impl AuxArea {
    /// Maps the area of an event behind its ring, whose header and size are given.
    pub fn map(
        descriptor: i32,
        header: NonNull<abi::perf_event_mmap_page>,
        ring_bytes: u64,
    ) -> io::Result<Self> {
        let offset = libc::off_t::try_from(ring_bytes)
            .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        // SAFETY: the header is mapped for as long as the ring that calls this; the kernel
        // reads these two words when the area is mapped, which happens next.
        unsafe {
            (*header.as_ptr()).aux_offset = ring_bytes;
            (*header.as_ptr()).aux_size = BYTES as u64;
        }
        // SAFETY: a new mapping at an address the kernel chooses aliases nothing of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                BYTES,
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
        Ok(Self { start, header })
    }

    /// The data that a record of the ring is about.
    pub fn copy(&self, offset: u64, length: u64) -> Vec<u8> {
        let length = usize::try_from(length).unwrap_or(BYTES).min(BYTES);
        let at = usize::try_from(offset % BYTES as u64).unwrap_or(0);
        let first = length.min(BYTES - at);
        let mut bytes = vec![0u8; length];
        // SAFETY: the area has BYTES bytes, both parts lie within, and the kernel writes none
        // of them until `release` gives them back.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start.as_ptr().add(at), bytes.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(
                self.start.as_ptr(),
                bytes.as_mut_ptr().add(first),
                length - first,
            );
        }
        bytes
    }

    /// Gives back what the records until `offset` were about.
    pub fn release(&self, offset: u64) {
        // SAFETY: an aligned word of the mapped header, which the kernel reads meanwhile:
        // that is what atomics are for.
        let tail = unsafe { AtomicU64::from_ptr(&raw mut (*self.header.as_ptr()).aux_tail) };
        tail.store(offset, Ordering::Release);
    }
}

impl Drop for AuxArea {
    fn drop(&mut self) {
        // SAFETY: start and length are those of our own mmap, unmapped exactly once.
        unsafe { libc::munmap(self.start.as_ptr().cast(), BYTES) };
    }
}
