//! Samples of a perf event as they come: one ring buffer for each CPU.
//!
//! Source: perf_event_open(2), "MMAP layout" and "PERF_RECORD_SAMPLE". An event that its
//! target's children inherit can only be read through a buffer of one CPU, so every CPU has a
//! ring, and further events of the same CPU write into it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings as abi;

use crate::perf::{self, Event, Scope};

/// Pages of samples in a ring; a power of two. With the one before it this stays within what
/// `perf_event_mlock_kb` grants every user.
const DATA_PAGES: usize = 64;

/// A sampled event of one target on one CPU. It ends when dropped.
#[derive(Debug)]
pub struct SampledEvent(OwnedFd);

impl SampledEvent {
    /// Opens an event that gives a sample with address, thread, CPU and time at every `period`
    /// events in user mode. Where the scope is a CPU `cpu` is that one.
    ///
    /// # Errors
    /// As [`crate::perf::Counter::open`].
    pub fn open(event: Event, period: u64, scope: Scope, cpu: u32) -> io::Result<Self> {
        let mut attr = event.attributes(true);
        attr.sample_period = period;
        attr.sample_type = u64::from(
            abi::PERF_SAMPLE_TID
                | abi::PERF_SAMPLE_TIME
                | abi::PERF_SAMPLE_ADDR
                | abi::PERF_SAMPLE_CPU,
        );
        let pid = scope.apply(&mut attr);
        perf::open(attr, pid, Some(cpu), None).map(Self)
    }

    /// Has its samples written into the ring of another event of the same CPU.
    ///
    /// # Errors
    /// `EINVAL` when that is another CPU's.
    pub fn write_into(&self, ring: &Ring) -> io::Result<()> {
        // SAFETY: two open descriptors of perf events; the call changes nothing of ours.
        let result = unsafe {
            perf_event_open_sys::ioctls::SET_OUTPUT(self.0.as_raw_fd(), ring.event.0.as_raw_fd())
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// What a ring holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// An event.
    Sample {
        /// Process.
        pid: i32,
        /// Thread.
        tid: i32,
        /// On the clock of perf.
        time_ns: u64,
        /// Data address.
        address: u64,
        /// CPU.
        cpu: u32,
    },
    /// So many samples found no room.
    Lost(u64),
    /// There were too many events: the kernel left some out.
    Throttled,
}

/// The samples of one CPU.
#[derive(Debug)]
pub struct Ring {
    event: SampledEvent,
    header: NonNull<abi::perf_event_mmap_page>,
    bytes: usize,
    page: usize,
}

// SAFETY: the mapping belongs to this value alone, and the kernel does not care which thread
// reads it.
unsafe impl Send for Ring {}

impl Ring {
    /// The ring that an event, and others of its CPU, writes into.
    ///
    /// # Errors
    /// `EPERM` beyond the memory that `perf_event_mlock_kb` grants, `ENOMEM`.
    pub fn of(event: SampledEvent) -> io::Result<Self> {
        // SAFETY: sysconf takes an integer.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let bytes = (1 + DATA_PAGES) * page;
        // SAFETY: a new mapping at an address the kernel chooses aliases nothing of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.0.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let header = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { event, header, bytes, page })
    }

    /// Takes what has come since the last time.
    pub fn take(&mut self) -> Vec<Record> {
        let size = DATA_PAGES * self.page;
        let header = self.header.as_ptr();
        // SAFETY: both fields are aligned words of the mapped header; the kernel writes the
        // head while we read it, which is what atomics are for.
        let (head, tail) = unsafe {
            (
                AtomicU64::from_ptr(&raw mut (*header).data_head),
                AtomicU64::from_ptr(&raw mut (*header).data_tail),
            )
        };
        let (from, until) = (tail.load(Ordering::Relaxed), head.load(Ordering::Acquire));
        let length = usize::try_from(until.wrapping_sub(from)).unwrap_or(0).min(size);
        let mut bytes = vec![0u8; length];
        let at = usize::try_from(from % size as u64).unwrap_or(0);
        let first = length.min(size - at);
        // SAFETY: the data begin one page after the header and have `size` bytes; the kernel
        // writes none of those between tail and head.
        unsafe {
            let data = header.cast::<u8>().add(self.page);
            std::ptr::copy_nonoverlapping(data.add(at), bytes.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(data, bytes.as_mut_ptr().add(first), length - first);
        }
        tail.store(until, Ordering::Release);
        parse(&bytes)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: start and length are those of our own mmap, unmapped exactly once.
        unsafe { libc::munmap(self.header.as_ptr().cast(), self.bytes) };
    }
}

/// Reads records one after another; what is cut off or unknown is left out.
fn parse(mut bytes: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    while let Some(header) = bytes.first_chunk::<8>() {
        let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
        if size < 8 || size > bytes.len() {
            break;
        }
        records.extend(record(kind, &bytes[8..size]));
        bytes = &bytes[size..];
    }
    records
}

fn record(kind: u32, body: &[u8]) -> Option<Record> {
    let word = |at: usize| -> Option<u64> {
        Some(u64::from_ne_bytes(*body.get(at * 8..)?.first_chunk::<8>()?))
    };
    let half = |at: usize| -> Option<u32> {
        Some(u32::from_ne_bytes(*body.get(at * 4..)?.first_chunk::<4>()?))
    };
    Some(match kind {
        abi::PERF_RECORD_SAMPLE => Record::Sample {
            pid: half(0)?.cast_signed(),
            tid: half(1)?.cast_signed(),
            time_ns: word(1)?,
            address: word(2)?,
            cpu: half(6)?,
        },
        abi::PERF_RECORD_LOST => Record::Lost(word(1)?),
        abi::PERF_RECORD_THROTTLE => Record::Throttled,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Mapping;

    #[test]
    fn page_faults_of_this_thread_have_addresses() {
        let (cpu, _) = crate::affinity::current_cpu_and_node();
        let before = crate::affinity::get(0).unwrap();
        let mut here = vec![0u64; before.len()];
        here[cpu as usize / 64] = 1 << (cpu % 64);
        crate::affinity::set(0, &here).unwrap();
        let open = || SampledEvent::open(Event::PAGE_FAULTS, 1, Scope::Thread(0), cpu);
        let event = match open() {
            Ok(event) => event,
            Err(e) if matches!(e.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => {
                eprintln!("skipped: perf_event_open is not permitted here ({e})");
                return;
            }
            Err(e) => panic!("{e}"),
        };
        let mut ring = Ring::of(event).unwrap();
        let second = open().unwrap();
        second.write_into(&ring).unwrap();
        let mut map = Mapping::anonymous(64 * 4096).unwrap();
        // Ordinary pages: one fault each.
        let _ = map.advise(libc::MADV_NOHUGEPAGE);
        map.as_mut_slice().iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        let range = map.as_ptr() as u64..map.as_ptr() as u64 + 64 * 4096;
        let records = ring.take();
        let ours = records.iter().filter(|record| {
            matches!(record, Record::Sample { address, cpu: on, .. }
                if range.contains(address) && *on == cpu)
        });
        // Both events see every fault.
        assert_eq!(ours.count(), 128, "{records:?}");
        assert!(ring.take().len() < 64, "taken twice");
        crate::affinity::set(0, &before).unwrap();
    }

    #[test]
    fn records_by_hand() {
        let mut bytes = Vec::new();
        let mut add = |kind: u32, words: &[u64]| {
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(0u16.to_ne_bytes());
            bytes.extend((8 + 8 * words.len() as u16).to_ne_bytes());
            words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        };
        add(abi::PERF_RECORD_SAMPLE, &[8 << 32 | 7, 1000, 0xabcd_e000, 3]);
        add(abi::PERF_RECORD_LOST, &[0, 17]);
        add(999, &[]);
        add(abi::PERF_RECORD_THROTTLE, &[1, 2, 3]);
        let sample = Record::Sample { pid: 7, tid: 8, time_ns: 1000, address: 0xabcd_e000, cpu: 3 };
        assert_eq!(parse(&bytes), [sample, Record::Lost(17), Record::Throttled]);
        for end in 0..bytes.len() {
            assert!(parse(&bytes[..end]).len() < 3);
        }
        assert_eq!(parse(&[0; 64]), []);
    }
}
