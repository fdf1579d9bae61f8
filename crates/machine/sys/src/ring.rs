//! Samples of a perf event while it runs: one ring buffer for each CPU.
//!
//! Source: perf_event_open(2), "MMAP layout" and "PERF_RECORD_SAMPLE". An event that the target's
//! children inherit can only be read through a buffer of one CPU. So every CPU has a ring, into
//! which further events of that CPU write.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::{bindings as abi, ioctls};

use crate::aux_area::AuxArea;
use crate::perf_area::PerfArea;
use crate::sampling::{Report, SampledEvent};

/// Number of data pages in a ring: a power of two. Together with the header page it stays within
/// the limit of `perf_event_mlock_kb` for unprivileged users.
const DATA_PAGES: usize = 64;

/// A PMU's report about the data of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// The latency of the access in the PMU's unit: cycles of the core.
    pub weight: u64,
    /// `union perf_mem_data_src`.
    pub source: u64,
}

/// A record of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A sampled event.
    Sample {
        /// Process.
        pid: i32,
        /// Thread.
        tid: i32,
        /// Time on perf's clock.
        time_ns: u64,
        /// Data address, or that of the instruction with [`Report::Code`].
        address: u64,
        /// CPU.
        cpu: u32,
        /// Source of the data, and the latency.
        data: Option<Data>,
    },
    /// New data in the AUX area.
    Aux {
        /// Process to which they belong.
        pid: i32,
        /// Thread.
        tid: i32,
        /// Time on perf's clock.
        time_ns: u64,
        /// CPU.
        cpu: u32,
        /// The data.
        bytes: Vec<u8>,
        /// Whether some data were lost because there was no room.
        truncated: bool,
    },
    /// A file that a process has mapped as code.
    Mapping {
        /// Process.
        pid: i32,
        /// Time on perf's clock.
        time_ns: u64,
        /// Where and what.
        mapping: CodeMapping,
    },
    /// A process has forked another one, or started a thread.
    Fork {
        /// The new process, or the old one for a thread.
        pid: i32,
        /// Process that has forked it.
        parent: i32,
        /// Time on perf's clock.
        time_ns: u64,
    },
    /// This number of samples was lost because there was no room.
    Lost(u64),
    /// The kernel dropped events because there were too many.
    Throttled,
}

/// A part of a file that is mapped as code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeMapping {
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Inode of the file; 0 without one.
    pub inode: u64,
    /// Its path as the process sees it, or a name such as `[vdso]`.
    pub path: PathBuf,
}

/// The samples of one CPU.
#[derive(Debug)]
pub struct Ring {
    event: SampledEvent,
    /// Dropped before the ring whose header it uses.
    aux: Option<AuxArea>,
    area: PerfArea,
    page: usize,
}

// SAFETY: only this value owns the mapping, and any thread may read it.
unsafe impl Send for Ring {}

impl Ring {
    /// Opens the ring into which an event and further events of its CPU write.
    ///
    /// # Errors
    /// `EPERM` above the limit of `perf_event_mlock_kb`, `ENOMEM`.
    pub fn of(event: SampledEvent) -> io::Result<Self> {
        let page = crate::page_size();
        let area = PerfArea::map(event.raw(), (1 + DATA_PAGES) * page, 0)?;
        Ok(Self { event, aux: None, area, page })
    }

    /// As [`Ring::of`], for a PMU that writes into an AUX area (Arm SPE).
    ///
    /// # Errors
    /// As [`Ring::of`].
    pub fn with_aux(event: SampledEvent) -> io::Result<Self> {
        let mut ring = Self::of(event)?;
        let bytes = ring.area.bytes() as u64;
        ring.aux = Some(AuxArea::map(ring.event.raw(), ring.header(), bytes)?);
        Ok(ring)
    }

    fn header(&self) -> NonNull<abi::perf_event_mmap_page> {
        self.area.start().cast()
    }

    /// Redirects the samples of another event of the same CPU into this ring.
    ///
    /// # Errors
    /// `EINVAL` for an event of another CPU.
    pub fn add(&self, event: &SampledEvent) -> io::Result<()> {
        // SAFETY: both are open descriptors of perf events; the call changes no memory of ours.
        let result = unsafe { ioctls::SET_OUTPUT(event.raw(), self.event.raw()) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The event that owns the ring.
    #[must_use]
    pub const fn event(&self) -> &SampledEvent {
        &self.event
    }

    /// Takes the records that have arrived since the last call.
    pub fn take_records(&mut self) -> Vec<Record> {
        let header = self.header().as_ptr();
        // SAFETY: both fields are aligned words of the mapped header. The kernel writes the head
        // concurrently, so the access is atomic.
        let (head, tail) = unsafe {
            (
                AtomicU64::from_ptr(&raw mut (*header).data_head),
                AtomicU64::from_ptr(&raw mut (*header).data_tail),
            )
        };
        let (from, until) = (tail.load(Ordering::Relaxed), head.load(Ordering::Acquire));
        // SAFETY: the data begin one page after the header. The kernel does not write between tail
        // and head.
        let bytes = unsafe { self.area.copy(self.page, from, until.wrapping_sub(from)) };
        tail.store(until, Ordering::Release);
        let mut records = Vec::new();
        for raw in Raw::all(&bytes) {
            if let Some(area) = &self.aux
                && let Some((offset, length, truncated)) = raw.aux()
            {
                records.extend(raw.aux_record(area.copy(offset, length), truncated));
                area.release(offset + length);
            } else {
                records.extend(raw.record(self.event.report()));
            }
        }
        records
    }
}

/// A record in the format of a ring.
#[derive(Clone, Copy)]
struct Raw<'a> {
    kind: u32,
    body: &'a [u8],
}

impl<'a> Raw<'a> {
    /// Iterates over records. An incomplete record at the end is ignored.
    fn all(mut bytes: &'a [u8]) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            let header = bytes.first_chunk::<8>()?;
            let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
            let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
            let body = bytes.get(8..size)?;
            bytes = &bytes[size..];
            Some(Self { kind, body })
        })
    }

    fn word(&self, at: usize) -> Option<u64> {
        Some(u64::from_ne_bytes(*self.body.get(at * 8..)?.first_chunk::<8>()?))
    }

    fn half(&self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.body.get(at * 4..)?.first_chunk::<4>()?))
    }

    /// Parses the record of an event that reports this. Returns `None` for a kind that is not used.
    fn record(self, report: Report) -> Option<Record> {
        Some(match self.kind {
            // The address of the instruction comes first, that of the data after thread and time.
            abi::PERF_RECORD_SAMPLE if report == Report::Code => Record::Sample {
                pid: self.half(2)?.cast_signed(),
                tid: self.half(3)?.cast_signed(),
                time_ns: self.word(2)?,
                address: self.word(0)?,
                cpu: self.half(6)?,
                data: None,
            },
            abi::PERF_RECORD_SAMPLE => Record::Sample {
                pid: self.half(0)?.cast_signed(),
                tid: self.half(1)?.cast_signed(),
                time_ns: self.word(1)?,
                address: self.word(2)?,
                cpu: self.half(6)?,
                data: self
                    .word(4)
                    .zip(self.word(5))
                    .map(|(weight, source)| Data { weight, source }),
            },
            abi::PERF_RECORD_MMAP2 => self.mapping()?,
            abi::PERF_RECORD_FORK => Record::Fork {
                pid: self.half(0)?.cast_signed(),
                parent: self.half(1)?.cast_signed(),
                time_ns: self.word(2)?,
            },
            abi::PERF_RECORD_LOST => Record::Lost(self.word(1)?),
            abi::PERF_RECORD_LOST_SAMPLES => Record::Lost(self.word(0)?),
            abi::PERF_RECORD_THROTTLE => Record::Throttled,
            _ => return None,
        })
    }

    /// A mapping of code. Its name is followed by thread, time and CPU (`sample_id_all`).
    fn mapping(self) -> Option<Record> {
        const NAME: usize = 64;
        const SAMPLE_ID: usize = 24;
        let end = self.body.len().checked_sub(SAMPLE_ID)?;
        let name = self.body.get(NAME..end)?;
        let name = name.split(|byte| *byte == 0).next()?;
        Some(Record::Mapping {
            pid: self.half(0)?.cast_signed(),
            time_ns: self.word(end / 8 + 1)?,
            mapping: CodeMapping {
                start: self.word(1)?,
                bytes: self.word(2)?,
                offset: self.word(3)?,
                inode: self.word(5)?,
                path: PathBuf::from(OsStr::from_bytes(name)),
            },
        })
    }

    /// Offset and length of the data in the AUX area, and whether some data were lost because there
    /// was no room.
    fn aux(self) -> Option<(u64, u64, bool)> {
        if self.kind != abi::PERF_RECORD_AUX {
            return None;
        }
        let truncated = self.word(2)? & u64::from(abi::PERF_AUX_FLAG_TRUNCATED) != 0;
        Some((self.word(0)?, self.word(1)?, truncated))
    }

    /// The record about data in the AUX area. It ends with thread, time and CPU (`sample_id_all`).
    /// The PMU stops when the thread stops running, so all data belong to that thread.
    fn aux_record(self, bytes: Vec<u8>, truncated: bool) -> Option<Record> {
        Some(Record::Aux {
            pid: self.half(6)?.cast_signed(),
            tid: self.half(7)?.cast_signed(),
            time_ns: self.word(4)?,
            cpu: self.half(10)?,
            bytes,
            truncated,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Mapping;
    use crate::perf::Scope;
    use crate::sampling::Sampling;

    fn parse(bytes: &[u8]) -> Vec<Record> {
        Raw::all(bytes).filter_map(|raw| raw.record(Report::Data)).collect()
    }

    #[test]
    fn page_faults_of_this_thread_have_addresses() {
        let (cpu, _) = crate::affinity::current_cpu_and_node();
        let before = crate::affinity::get(0).unwrap();
        let mut here = vec![0u64; before.len()];
        here[cpu as usize / 64] = 1 << (cpu % 64);
        crate::affinity::set(0, &here).unwrap();
        let open = || SampledEvent::open(&Sampling::PAGE_FAULTS, Scope::Thread(0), cpu);
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
        ring.add(&second).unwrap();
        let mut map = Mapping::anonymous(64 * 4096).unwrap();
        // Ordinary pages: one fault each.
        let _ = map.advise(libc::MADV_NOHUGEPAGE);
        map.as_mut_slice().iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        let range = map.as_ptr() as u64..map.as_ptr() as u64 + 64 * 4096;
        let records = ring.take_records();
        let ours = records.iter().filter(|record| {
            matches!(record, Record::Sample { address, cpu: on, .. }
                if range.contains(address) && *on == cpu)
        });
        // Both events record every fault.
        assert_eq!(ours.count(), 128, "{records:?}");
        assert!(ring.take_records().len() < 64, "taken twice");
        crate::affinity::set(0, &before).unwrap();
    }

    /// A record as the kernel writes it: header and words.
    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(0u16.to_ne_bytes());
        bytes.extend((8 + 8 * words.len() as u16).to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn records_by_hand() {
        let mut bytes = Vec::new();
        let mut add = |kind, words: &[u64]| bytes.extend(record(kind, words));
        add(abi::PERF_RECORD_SAMPLE, &[8 << 32 | 7, 1000, 0xabcd_e000, 3]);
        add(abi::PERF_RECORD_LOST, &[0, 17]);
        add(999, &[]);
        add(abi::PERF_RECORD_THROTTLE, &[1, 2, 3]);
        add(abi::PERF_RECORD_SAMPLE, &[8 << 32 | 7, 1000, 0xabcd_e000, 3, 250, 0x42]);
        add(abi::PERF_RECORD_LOST_SAMPLES, &[5]);
        let sample = |data| Record::Sample {
            pid: 7,
            tid: 8,
            time_ns: 1000,
            address: 0xabcd_e000,
            cpu: 3,
            data,
        };
        let data = Some(Data { weight: 250, source: 0x42 });
        assert_eq!(
            parse(&bytes),
            [sample(None), Record::Lost(17), Record::Throttled, sample(data), Record::Lost(5)]
        );
        for end in 0..bytes.len() {
            assert!(parse(&bytes[..end]).len() < 5);
        }
        assert_eq!(parse(&[0; 64]), []);
    }

    #[test]
    fn records_about_code_by_hand() {
        let mut bytes = Vec::new();
        let mut add = |kind, words: &[u64]| bytes.extend(record(kind, words));
        add(abi::PERF_RECORD_SAMPLE, &[0x40_1000, 8 << 32 | 7, 1000, 3]);
        add(abi::PERF_RECORD_FORK, &[7 << 32 | 9, 7 << 32 | 9, 1001, 0, 0, 0]);
        let name = u64::from_ne_bytes(*b"/lib/a\0\0");
        let mapped = [9 << 32 | 9, 0x7000, 4096, 8192, 2 << 32 | 1, 77, 0, 5, name];
        add(abi::PERF_RECORD_MMAP2, &[&mapped[..], &[9 << 32 | 9, 1002, 3]].concat());
        let records: Vec<Record> =
            Raw::all(&bytes).filter_map(|raw| raw.record(Report::Code)).collect();
        let mapping = CodeMapping {
            start: 0x7000,
            bytes: 4096,
            offset: 8192,
            inode: 77,
            path: "/lib/a".into(),
        };
        let address = 0x40_1000;
        assert_eq!(
            records,
            [
                Record::Sample { pid: 7, tid: 8, time_ns: 1000, address, cpu: 3, data: None },
                Record::Fork { pid: 9, parent: 7, time_ns: 1001 },
                Record::Mapping { pid: 9, time_ns: 1002, mapping },
            ]
        );
        for end in 0..bytes.len() {
            assert!(Raw::all(&bytes[..end]).filter_map(|raw| raw.record(Report::Code)).count() < 3);
        }
    }

    #[test]
    fn records_about_an_aux_area_say_whose_it_is() {
        let mut bytes = Vec::new();
        bytes.extend(abi::PERF_RECORD_AUX.to_ne_bytes());
        bytes.extend([0, 0, 56, 0]);
        for word in [4096u64, 128, 1, 8 << 32 | 7, 1000, 3] {
            bytes.extend(word.to_ne_bytes());
        }
        let raw = Raw::all(&bytes).next().unwrap();
        assert_eq!(raw.aux(), Some((4096, 128, true)));
        let (pid, tid, time_ns, cpu) = (7, 8, 1000, 3);
        let expected = Record::Aux { pid, tid, time_ns, cpu, bytes: vec![1, 2], truncated: true };
        assert_eq!(raw.aux_record(vec![1, 2], true), Some(expected));
        assert_eq!(
            (
                raw.record(Report::Address),
                Raw { body: &raw.body[..40], ..raw }.aux_record(vec![], true)
            ),
            (None, None)
        );
    }
}
