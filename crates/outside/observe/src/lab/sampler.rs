//! One of the programs that sample with a lab's PMU. Each has its own period.

use std::io;

use numapilot_lab_pmu::{Level, Reader, Record};
use numapilot_sys::process::start_time;
use numapilot_topology::{CpuId, NodeId};

use super::{LabError, LabPmu};
use crate::sample::{Sample, ServedBy};

/// Number of bits of an owner's word that are its process id. Linux has at most 2^22 ids.
const PID_BITS: u32 = 22;

/// The samples of one CPU.
#[derive(Clone, Copy, Debug)]
struct Seen {
    reader: Reader,
    /// Number of accesses since the last sample that was taken.
    passed: u64,
}

/// Samples accesses until it is dropped.
#[derive(Debug)]
pub struct LabSampler {
    lab: LabPmu,
    place: usize,
    period: u64,
    seen: Vec<Seen>,
    lost: u64,
}

impl LabSampler {
    pub(super) fn begin(lab: LabPmu, period: u64) -> Result<Self, LabError> {
        let own = owner(std::process::id()).map_err(LabError::NoProcess)?;
        let place = lab.pmu.samplers().claim(own, is_alive).ok_or(LabError::Busy)?;
        let mut begun = Self { lab, place, period, seen: Vec::new(), lost: 0 };
        begun.set_period(period);
        Ok(begun)
    }

    /// The PMU.
    #[must_use]
    pub const fn lab(&self) -> &LabPmu {
        &self.lab
    }

    /// Samples one of this number of accesses from now on; 0 stops sampling. Samples that were not
    /// taken are dropped.
    pub fn set_period(&mut self, accesses: u64) {
        self.period = accesses;
        self.lab.pmu.samplers().set_period(self.place, accesses);
        self.skip();
    }

    /// Drops samples that were not taken.
    pub fn skip(&mut self) {
        let pmu = &self.lab.pmu;
        let seen = (0..pmu.shape().cpus).filter_map(|cpu| pmu.ring(cpu));
        self.seen = seen.map(|ring| Seen { reader: ring.reader(), passed: 0 }).collect();
    }

    /// Takes the samples that have arrived since the last call, CPU by CPU, at most one ring of
    /// each. A CPU that samples as fast as its samples are taken must not hide those of the others.
    pub fn take_samples(&mut self, mut into: impl FnMut(Sample)) {
        let (pmu, period) = (&self.lab.pmu, self.period);
        if period == 0 {
            // New samples are for other programs.
            return;
        }
        // Lost samples had the shortest period of all programs.
        let shortest = pmu.sample_period().clamp(1, period);
        for (cpu, seen) in self.seen.iter_mut().enumerate() {
            let Some(ring) = pmu.ring(cpu) else { continue };
            let lost = seen.reader.lost();
            for _ in 0..ring.capacity() {
                let Some(record) = ring.next(&mut seen.reader) else { break };
                // Other programs may sample more often.
                seen.passed = seen.passed.saturating_add(record.period);
                if seen.passed >= period {
                    seen.passed %= period;
                    into(sample(record));
                }
            }
            let lost = u128::from(seen.reader.lost().wrapping_sub(lost));
            let own = (lost * u128::from(shortest)).div_ceil(u128::from(period));
            self.lost = self.lost.saturating_add(u64::try_from(own).unwrap_or(u64::MAX));
        }
    }

    /// Number of samples that were lost because they were not taken in time.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}

impl Drop for LabSampler {
    fn drop(&mut self) {
        self.lab.pmu.samplers().release(self.place);
    }
}

/// The identity of a process: its id and its start time, because its id can be reused.
fn owner(pid: u32) -> io::Result<u64> {
    Ok(start_time(pid)? << PID_BITS | u64::from(pid))
}

fn is_alive(known: u64) -> bool {
    let pid = u32::try_from(known & ((1 << PID_BITS) - 1)).unwrap_or(0);
    owner(pid).is_ok_and(|owner| owner == known)
}

fn sample(record: Record) -> Sample {
    Sample {
        time_ns: record.time_ns,
        pid: None,
        virtual_address: record.virtual_address,
        physical_address: Some(record.physical_address),
        cpu: CpuId(record.cpu),
        home: Some(NodeId(record.home)),
        write: record.write,
        served_by: Some(match record.level {
            Level::Private => ServedBy::OwnCache,
            Level::Last => ServedBy::SharedCache,
            Level::OtherCache => ServedBy::OtherCache,
            Level::Dram => ServedBy::Dram,
        }),
        latency_ns: Some(record.latency_ns),
    }
}
