//! Where a program spends its CPU time, from samples of its instructions.
//!
//! Source: perf_event_open(2), `PERF_COUNT_SW_CPU_CLOCK`. The kernel takes the samples with a timer
//! of its own, so no PMU is needed. Time in the kernel is not sampled: it is known as system time.
//!
//! ```text
//!  cpu-clock --> rings --records--> AddressSpaces --> (thread, file, offset): samples
//! ```

mod address_space;

use std::collections::BTreeMap;
use std::io;

use numapilot_sys::open_files;
use numapilot_sys::ring::Record;
use numapilot_sys::sampling::{SampledEvent, Sampling};
use numapilot_topology::{CpuId, CpuSet};

use self::address_space::AddressSpaces;
pub use self::address_space::CodeFile;
use crate::pmu::{Attach, refusal};
use crate::rings::Rings;

/// CPU time between two samples, about 250 a second. It is a prime number of microseconds, so it does
/// not keep step with timers of the program.
pub const PERIOD_NS: u64 = 4_003_000;

/// A thread that was sampled, and what it executed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Thread.
    pub tid: i32,
    /// File of the code.
    pub file: CodeFile,
    /// Offset in it.
    pub offset: u64,
}

/// Samples of user mode, each for [`PERIOD_NS`] of CPU time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeProfile {
    /// Samples by thread and code.
    pub places: BTreeMap<Place, u64>,
    /// Samples by process, thread and CPU; all of them.
    pub cpus: BTreeMap<(i32, i32, CpuId), u64>,
    /// Samples whose code is not known, because the process had ended when its mappings were read.
    pub unmapped: u64,
    /// Records that were lost because there was no room, plus the number of times the kernel
    /// throttled the event.
    pub lost: u64,
}

impl CodeProfile {
    /// All samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.cpus.values().sum()
    }

    /// The process with the most samples.
    #[must_use]
    pub fn busiest_process(&self) -> Option<i32> {
        let mut processes: BTreeMap<i32, u64> = BTreeMap::new();
        for ((pid, ..), count) in &self.cpus {
            *processes.entry(*pid).or_default() += count;
        }
        processes.into_iter().max_by_key(|(_, count)| *count).map(|(pid, _)| pid)
    }
}

/// Samples the code of a target.
#[derive(Debug)]
pub struct CodeSampler {
    rings: Rings,
    spaces: AddressSpaces,
    profile: CodeProfile,
}

impl CodeSampler {
    /// Starts sampling on these CPUs.
    ///
    /// # Errors
    /// Why that is not possible, with the remedy: `perf_event_paranoid`, ownership, a seccomp
    /// filter, or the limit of open files, because each thread needs one on each CPU.
    pub fn open(whose: &Attach, cpus: &CpuSet) -> Result<Self, String> {
        open_files::raise();
        let open = |scope, cpu| SampledEvent::open(&Sampling::code(PERIOD_NS), scope, cpu);
        let rings =
            Rings::open(whose, cpus, false, open).map_err(|error: io::Error| refusal(&error))?;
        Ok(Self { rings, spaces: AddressSpaces::default(), profile: CodeProfile::default() })
    }

    /// Takes the samples that have arrived since the last call. The rings hold those of several
    /// seconds.
    pub fn take_samples(&mut self) {
        let mut records = self.rings.take_records();
        // A process may be sampled on one CPU after it has mapped a file on another.
        records.sort_by_key(time_ns);
        for record in records {
            match record {
                Record::Sample { pid, tid, address, cpu, .. } => {
                    *self.profile.cpus.entry((pid, tid, CpuId(cpu))).or_default() += 1;
                    match self.spaces.find(pid, address) {
                        Some((file, offset)) => {
                            let place = Place { tid, file, offset };
                            *self.profile.places.entry(place).or_default() += 1;
                        }
                        None => self.profile.unmapped += 1,
                    }
                }
                Record::Mapping { pid, mapping, .. } => self.spaces.add(pid, mapping),
                Record::Fork { pid, parent, .. } => self.spaces.fork(pid, parent),
                Record::Lost(count) => self.profile.lost += count,
                Record::Throttled | Record::Aux { .. } => self.profile.lost += 1,
            }
        }
    }

    /// The samples that were taken so far.
    #[must_use]
    pub const fn profile(&self) -> &CodeProfile {
        &self.profile
    }

    /// Ends sampling with what is left in the rings.
    #[must_use]
    pub fn finish(mut self) -> CodeProfile {
        self.take_samples();
        self.profile
    }
}

fn time_ns(record: &Record) -> u64 {
    match record {
        Record::Sample { time_ns, .. }
        | Record::Aux { time_ns, .. }
        | Record::Mapping { time_ns, .. }
        | Record::Fork { time_ns, .. } => *time_ns,
        Record::Lost(_) | Record::Throttled => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn profile_of(script: &str) -> Option<CodeProfile> {
        let cpus = numapilot_topology::read("/".as_ref()).unwrap().online_cpus();
        let sampler = match CodeSampler::open(&Attach::NextExec, &cpus) {
            Ok(sampler) => sampler,
            Err(reason) => {
                eprintln!("skipped: {reason}");
                return None;
            }
        };
        assert!(Command::new("sh").args(["-c", script]).status().unwrap().success());
        Some(sampler.finish())
    }

    #[test]
    fn a_program_that_has_ended_has_its_code_and_that_of_its_children() {
        let loop_of = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";
        let Some(profile) = profile_of(&format!("({loop_of}) & {loop_of}; wait")) else { return };
        let placed: u64 = profile.places.values().sum();
        assert_eq!((placed + profile.unmapped, profile.lost), (profile.samples(), 0));
        assert_eq!(profile.unmapped, 0, "{profile:?}");
        let shell = |place: &Place| {
            let name = place.file.path.file_name().unwrap_or_default().to_string_lossy();
            name.ends_with("sh") && place.file.inode != 0
        };
        let in_shell = profile.places.iter().filter(|(place, _)| shell(place));
        let mut threads: Vec<i32> = in_shell.map(|(place, _)| place.tid).collect();
        threads.dedup();
        threads.sort_unstable();
        threads.dedup();
        assert_eq!(threads.len(), 2, "{profile:?}");
        assert!(profile.busiest_process().is_some());
    }
}
