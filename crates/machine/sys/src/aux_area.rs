//! The AUX area of a perf event: memory into which a PMU writes data in its own format. The ring
//! has records about these data.
//!
//! Source: perf_event_open(2), "aux_head" and `PERF_RECORD_AUX`.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings as abi;

use crate::perf_area::PerfArea;

/// Size of the area: a power of two.
const BYTES: usize = 1 << 20;

/// An AUX area.
#[derive(Debug)]
pub struct AuxArea {
    area: PerfArea,
    header: NonNull<abi::perf_event_mmap_page>,
}

impl AuxArea {
    /// Maps the area of an event after its ring, whose header and size are given.
    pub fn map(
        descriptor: i32,
        header: NonNull<abi::perf_event_mmap_page>,
        ring_bytes: u64,
    ) -> io::Result<Self> {
        let offset = libc::off_t::try_from(ring_bytes)
            .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        // SAFETY: the header is mapped as long as the calling ring. The kernel reads these two
        // words when the area is mapped, which happens next.
        unsafe {
            (*header.as_ptr()).aux_offset = ring_bytes;
            (*header.as_ptr()).aux_size = BYTES as u64;
        }
        Ok(Self { area: PerfArea::map(descriptor, BYTES, offset)?, header })
    }

    /// Copies the data that a record of the ring describes.
    pub fn copy(&self, offset: u64, length: u64) -> Vec<u8> {
        // SAFETY: the kernel does not write these bytes until `release` gives them back.
        unsafe { self.area.copy(0, offset, length) }
    }

    /// Gives back the data before `offset`.
    pub fn release(&self, offset: u64) {
        // SAFETY: an aligned word of the mapped header. The kernel reads it concurrently, so the
        // access is atomic.
        let tail = unsafe { AtomicU64::from_ptr(&raw mut (*self.header.as_ptr()).aux_tail) };
        tail.store(offset, Ordering::Release);
    }
}
