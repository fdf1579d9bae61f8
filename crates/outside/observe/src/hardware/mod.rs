//! Accesses that the processor samples: AMD's IBS, Intel's PEBS, Arm's SPE.
//!
//! Events follow the target's threads if the PMU supports that. Otherwise (IBS before Linux 6.2)
//! they sample whole CPUs, and the samples name their process. The overhead for the target is
//! bounded: sampling pauses for the rest of an interval that has enough samples.

mod access_pmu;
mod data_source;
mod spe;
mod spe_source;

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use numapilot_sys::ring::{Data, Record};
use numapilot_sys::sampling::{SampledEvent, Sampling};
use numapilot_topology::{CpuId, CpuSet};

pub use access_pmu::AccessPmu;
use data_source::DataSource;
use spe_source::Sources;

use crate::pmu::Attach;
use crate::rings::Rings;
use crate::sample::{Sample, ServedBy};

/// Maximum number of samples per CPU and second. At 2 microseconds each, they take 0.8 % of its
/// time.
const MOST_PER_CPU: u64 = 4000;

/// A PMU while it samples.
#[derive(Debug)]
pub struct Hardware {
    pmu: AccessPmu,
    rings: Rings,
    cpus: u64,
    decoder: Decoder,
    interval: Duty,
    lost: u64,
}

/// The time for which events were on in an interval.
#[derive(Debug)]
struct Duty {
    began: Instant,
    /// The time after which they were paused.
    paused_after: Option<Duration>,
    /// Number of samples so far.
    samples: u64,
}

impl Duty {
    fn new() -> Self {
        Self { began: Instant::now(), paused_after: None, samples: 0 }
    }
}

impl Hardware {
    /// Starts sampling.
    ///
    /// # Errors
    /// As [`SampledEvent::open`], if neither the target's threads nor whole CPUs can be sampled.
    pub fn open(pmu: AccessPmu, whose: &Attach, cpus: &CpuSet) -> io::Result<Self> {
        let everywhere = Attach::Cpus(cpus.iter().map(u32::from).collect());
        let with = |user_only| Sampling { user_only, ..pmu.sampling };
        let tries = [(whose, with(true)), (whose, with(false)), (&everywhere, with(false))];
        let mut refused = None;
        for (whose, sampling) in tries {
            let open = |scope, cpu| SampledEvent::open(&sampling, scope, cpu);
            match Rings::open(whose, cpus, pmu.packets.is_some(), open) {
                Ok(rings) => {
                    let decoder = Decoder {
                        cycles_per_ns: cycles_per_ns(),
                        sees_stores: pmu.sees_stores,
                        sources: pmu.packets.unwrap_or(Sources::Unknown),
                    };
                    return Ok(Self {
                        pmu,
                        rings,
                        cpus: cpus.len() as u64,
                        decoder,
                        interval: Duty::new(),
                        lost: 0,
                    });
                }
                // The first error is the relevant one.
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or_else(|| io::Error::from_raw_os_error(libc::ENODEV)))
    }

    /// As it is shown.
    pub const fn name(&self) -> &'static str {
        self.pmu.name
    }

    /// Takes the samples of DRAM accesses that have arrived since the last call.
    pub fn take_samples(&mut self, into: &mut Vec<Sample>) {
        for record in self.rings.take_records() {
            self.lost += match record {
                Record::Lost(count) => count,
                Record::Throttled | Record::Aux { truncated: true, .. } => 1,
                _ => 0,
            };
            self.interval.samples += self.decoder.decode(&record, into);
        }
        let most = MOST_PER_CPU * self.cpus;
        let passed = self.interval.began.elapsed();
        // Samples arrive faster than allowed.
        if self.interval.paused_after.is_none()
            && self.interval.samples as f64 > most as f64 * passed.as_secs_f64().max(1.0)
        {
            self.rings.pause();
            self.interval.paused_after = Some(passed);
        }
    }

    /// Ends an interval. Returns the number of accesses that each of its samples represents.
    pub fn end_interval(&mut self) -> f64 {
        let passed = self.interval.began.elapsed();
        let on = self.interval.paused_after.unwrap_or(passed);
        let share = on.as_secs_f64().max(1e-9) / passed.as_secs_f64().max(1e-9);
        self.pmu.sampling.period as f64 / share
    }

    /// Stops sampling until [`Hardware::skip`].
    pub fn stop(&mut self) {
        self.rings.pause();
        self.interval.paused_after.get_or_insert(Duration::ZERO);
    }

    /// Drops the samples that have arrived since, and begins an interval.
    pub fn skip(&mut self) {
        if self.interval.paused_after.is_some() {
            self.rings.resume();
        }
        self.rings.take_records();
        self.interval = Duty::new();
    }

    /// Number of samples that were lost because they were not taken in time, plus the number of
    /// times the kernel throttled the event.
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}

/// Decodes records.
#[derive(Clone, Copy, Debug)]
struct Decoder {
    cycles_per_ns: Option<f64>,
    sees_stores: bool,
    /// Meaning of the data sources in packets.
    sources: Sources,
}

impl Decoder {
    /// Adds the DRAM accesses of a record. Returns the number of all its samples.
    fn decode(self, record: &Record, into: &mut Vec<Sample>) -> u64 {
        match record {
            Record::Sample { pid, time_ns, address, cpu, data: Some(data), .. } => {
                let Data { weight, source } = *data;
                let source = DataSource(source);
                let operation = spe::Operation {
                    address: *address,
                    write: source.is_store(),
                    served_by: source.served_by(),
                    latency_cycles: u32::try_from(weight).ok(),
                };
                if source.is_access() {
                    into.extend(self.sample((*pid, *time_ns, *cpu), operation));
                }
                1
            }
            Record::Aux { pid, time_ns, cpu, bytes, .. } => {
                let operations = spe::operations(bytes, self.sources);
                let samples = operations.iter();
                into.extend(samples.filter_map(|one| self.sample((*pid, *time_ns, *cpu), *one)));
                operations.len() as u64
            }
            _ => 0,
        }
    }

    /// Turns an operation into a sample, if its address belongs to a process and it may have gone
    /// to DRAM. If the data source is not reported, it may have.
    fn sample(self, (pid, time_ns, cpu): (i32, u64, u32), one: spe::Operation) -> Option<Sample> {
        let is_dram = one.served_by.is_none_or(|by| by == ServedBy::Dram);
        (is_user(one.address) && is_dram).then_some(Sample {
            time_ns,
            pid: Some(pid),
            virtual_address: one.address,
            physical_address: None,
            cpu: CpuId(cpu),
            home: None,
            // If stores are not sampled, no page may be taken for read-only.
            write: one.write || !self.sees_stores,
            served_by: one.served_by,
            latency_ns: one.latency_cycles.and_then(|cycles| self.ns(cycles)),
        })
    }

    /// Converts cycles to time. Returns `None` for a latency that is not reported.
    fn ns(self, cycles: u32) -> Option<u32> {
        let ns = f64::from(cycles) / self.cycles_per_ns?;
        (ns >= 1.0 && ns < f64::from(u32::MAX)).then_some(ns as u32)
    }
}

/// Whether an address belongs to a process. IBS cannot always exclude the kernel, and reports 0 for
/// an instruction without an address.
const fn is_user(address: u64) -> bool {
    address != 0 && address < 1 << 63
}

/// Cycles of a core per nanosecond at its nominal clock, to convert latencies.
fn cycles_per_ns() -> Option<f64> {
    let frequency = "/sys/devices/system/cpu/cpu0/cpufreq";
    let khz = ["base_frequency", "cpuinfo_max_freq"].into_iter().find_map(|file| {
        fs::read_to_string(format!("{frequency}/{file}")).ok()?.trim().parse::<f64>().ok()
    });
    let of_cpuinfo = || {
        let text = fs::read_to_string("/proc/cpuinfo").ok()?;
        let line = text.lines().find(|line| line.starts_with("cpu MHz"))?;
        Some(line.split_once(':')?.1.trim().parse::<f64>().ok()? * 1e3)
    };
    khz.or_else(of_cpuinfo).map(|khz| khz / 1e6).filter(|cycles| *cycles > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOAD | P(LVL, REM_RAM1) | REM | LEVEL(RAM), as PEBS and IBS report a remote access.
    const REMOTE_LOAD: u64 = 0x02 | 0x102 << 5 | 0xd << 33 | 1 << 37;

    fn record(address: u64, source: u64, weight: u64) -> Record {
        let data = Some(Data { weight, source });
        Record::Sample { pid: 7, tid: 8, time_ns: 1000, address, cpu: 3, data }
    }

    fn taken(record: &Record) -> Vec<Sample> {
        let mut into = Vec::new();
        let sources = Sources::Arm;
        let decoder = Decoder { cycles_per_ns: Some(2.5), sees_stores: true, sources };
        assert_eq!(decoder.decode(record, &mut into), 1);
        into
    }

    #[test]
    fn a_dram_access_is_a_sample_with_its_latency() {
        let found = taken(&record(0x7f00_1234_5678, REMOTE_LOAD, 500));
        assert_eq!(
            found,
            [Sample {
                time_ns: 1000,
                pid: Some(7),
                virtual_address: 0x7f00_1234_5678,
                physical_address: None,
                cpu: CpuId(3),
                home: None,
                write: false,
                served_by: Some(ServedBy::Dram),
                latency_ns: Some(200),
            }]
        );
        let mut loads_alone = Vec::new();
        Decoder { cycles_per_ns: None, sees_stores: false, sources: Sources::Unknown }
            .decode(&record(0x1000, REMOTE_LOAD, 500), &mut loads_alone);
        assert_eq!((loads_alone[0].write, loads_alone[0].latency_ns), (true, None));
        // Without a latency.
        assert_eq!(taken(&record(0x1000, REMOTE_LOAD, 0))[0].latency_ns, None);
    }

    #[test]
    fn what_is_no_dram_access_of_a_process_is_left_out() {
        let own_cache = 0x02 | 0x0a << 5 | 1 << 33;
        for (address, source) in [
            (0x1000, own_cache),
            (0x1000, 0x01),
            (0, REMOTE_LOAD),
            (0xffff_8880_0000_1000, REMOTE_LOAD),
        ] {
            assert_eq!(taken(&record(address, source, 100)), []);
        }
    }

    #[test]
    fn packets_are_samples_of_the_thread_whose_area_it_is() {
        // A store, address 0x1000, latency 250 cycles, last level missed, end.
        let mut bytes = vec![0x49, 1, 0xb2];
        bytes.extend(0x1000u64.to_le_bytes());
        bytes.extend([0x98, 250, 0, 0x52, 0, 2, 0x01]);
        let record = Record::Aux { pid: 7, tid: 8, time_ns: 1000, cpu: 3, bytes, truncated: false };
        let found = taken(&record);
        assert_eq!((found.len(), found[0].virtual_address, found[0].write), (1, 0x1000, true));
        assert_eq!(
            (found[0].pid, found[0].cpu, found[0].latency_ns),
            (Some(7), CpuId(3), Some(100))
        );
    }

    #[test]
    fn a_machine_without_the_pmu_is_reported() {
        let sampling = Sampling {
            event: numapilot_sys::perf::Event { pmu: u32::MAX, config: 0, config1: 0 },
            ..Sampling::PAGE_FAULTS
        };
        let pmu = AccessPmu { name: "none", sampling, sees_stores: true, packets: None };
        let cpus: CpuSet = [CpuId(0)].into_iter().collect();
        assert!(Hardware::open(pmu, &Attach::Threads(vec![0]), &cpus).is_err());
    }
}
