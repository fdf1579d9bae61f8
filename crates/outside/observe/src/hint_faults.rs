//! Sampled accesses without a PMU: the hint faults of the target.
//!
//! Source: Documentation/admin-guide/sysctl/kernel.rst (`numa_balancing`), task_numa_work in
//! kernel/sched/fair.c, perf_event_open(2). Under AutoNUMA the kernel periodically unmaps some
//! pages of a process, so the next access to each of them is a page fault. perf reports these
//! faults with address, thread and CPU. A scan yields at most one sample for a page, which tells
//! that the page is used, but not how often.

use std::io;

use numapilot_sys::ring::Record;
use numapilot_sys::sampling::{SampledEvent, Sampling};
use numapilot_topology::{CpuId, CpuSet};

use crate::AutoNuma;
use crate::pmu::Attach;
use crate::rings::Rings;
use crate::sample::Sample;

/// Whether AutoNUMA samples and moves pages of all programs without their own policy, or `None` on
/// a kernel without AutoNUMA.
#[must_use]
pub fn auto_numa() -> Option<bool> {
    AutoNuma::read().map(AutoNuma::is_on)
}

/// Samples the page faults of a target.
#[derive(Debug)]
pub struct HintFaults {
    rings: Rings,
    lost: u64,
}

impl HintFaults {
    /// The name that is shown.
    pub const NAME: &'static str = "NUMA hint faults";

    /// Starts sampling on these CPUs.
    ///
    /// # Errors
    /// `EACCES`/`EPERM` by `perf_event_paranoid`, ownership or seccomp; `EMFILE` at the limit of
    /// open files, because each thread needs one on each CPU.
    pub fn open(whose: &Attach, cpus: &CpuSet) -> io::Result<Self> {
        let open = |scope, cpu| SampledEvent::open(&Sampling::PAGE_FAULTS, scope, cpu);
        Ok(Self { rings: Rings::open(whose, cpus, false, open)?, lost: 0 })
    }

    /// Takes the samples that have arrived since the last call.
    pub fn samples(&mut self) -> Vec<Sample> {
        let mut samples = Vec::new();
        for record in self.rings.take_records() {
            match record {
                Record::Sample { pid, time_ns, address, cpu, .. } => samples.push(Sample {
                    time_ns,
                    pid: Some(pid),
                    virtual_address: address,
                    physical_address: None,
                    cpu: CpuId(cpu),
                    home: None,
                    // Not reported, so no page may be taken for read-only.
                    write: true,
                    served_by: None,
                    latency_ns: None,
                }),
                Record::Lost(count) => self.lost += count,
                Record::Throttled | Record::Aux { .. } => self.lost += 1,
                Record::Mapping { .. } | Record::Fork { .. } => {}
            }
        }
        samples
    }

    /// Number of samples that were lost because they were not taken in time, plus the number of
    /// times the kernel throttled the event.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn cpus() -> CpuSet {
        numapilot_topology::read("/".as_ref()).unwrap().online_cpus()
    }

    fn open(whose: &Attach) -> Option<HintFaults> {
        match HintFaults::open(whose, &cpus()) {
            Ok(faults) => Some(faults),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => {
                eprintln!("skipped: perf_event_open is not permitted here ({e})");
                None
            }
            Err(e) => panic!("{e}"),
        }
    }

    #[test]
    fn faults_of_the_next_program_and_its_children() {
        let Some(mut faults) = open(&Attach::NextExec) else { return };
        let child = Command::new("sh")
            .args(["-c", "sh -c 'echo'; true"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let first = child.id().cast_signed();
        assert!(child.wait_with_output().unwrap().status.success());
        let samples = faults.samples();
        let me = std::process::id().cast_signed();
        assert!(samples.iter().any(|sample| sample.pid == Some(first)), "{}", samples.len());
        assert!(samples.iter().any(|sample| sample.pid != Some(first)));
        assert!(samples.iter().all(|sample| sample.pid != Some(me)));
    }

    #[test]
    fn a_thread_that_is_gone_is_left_out() {
        let Some(faults) = open(&Attach::Threads(vec![0, i32::MAX])) else { return };
        assert_eq!(faults.rings.len(), cpus().len());
    }
}
