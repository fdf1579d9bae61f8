//! Sampled events: the kernel records every n-th event.
//!
//! Source: perf_event_open(2). The kernel samples page faults and CPU time itself. Three kinds of hardware tag
//! an instruction or a load and report its data address: AMD's Instruction Based Sampling (PMU
//! `ibs_op`), Intel's PEBS with a load latency event, and Arm's Statistical Profiling Extension
//! (`arm_spe_0`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use perf_event_open_sys::{bindings as abi, ioctls};

use crate::perf::{self, Event, Scope};

/// What a sample reports in addition to thread, time and CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// The data address.
    Address,
    /// The data address, the source of the data, and the latency.
    Data,
    /// The address of the instruction. The kernel also records which files the target maps as code,
    /// and which processes it forks.
    Code,
}

/// The event to sample, and the settings for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// The event.
    pub event: Event,
    /// Number of events for each sample.
    pub period: u64,
    /// How precisely a sample must be attributed to its instruction: 0 for the kernel's events and
    /// for PMUs that are precise by design (`ibs_op`, `arm_spe_0`), 2 for PEBS.
    pub precise: u8,
    /// What a sample reports.
    pub report: Report,
    /// Excludes the kernel's work.
    pub user_only: bool,
    /// An event that must be counted beside it (`mem-loads-aux`, Intel from Sapphire Rapids on).
    pub leader: Option<Event>,
}

impl Sampling {
    /// Every page fault.
    pub const PAGE_FAULTS: Self = Self {
        event: Event::PAGE_FAULTS,
        period: 1,
        precise: 0,
        report: Report::Address,
        user_only: true,
        leader: None,
    };

    /// The instructions of user mode at every `period_ns` of CPU time.
    #[must_use]
    pub const fn code(period_ns: u64) -> Self {
        Self {
            event: Event::CPU_CLOCK,
            period: period_ns,
            precise: 0,
            report: Report::Code,
            user_only: true,
            leader: None,
        }
    }
}

/// A sampled event of one target on one CPU. It ends when it is dropped.
#[derive(Debug)]
pub struct SampledEvent {
    descriptor: OwnedFd,
    report: Report,
    /// Held for its descriptor.
    _leader: Option<OwnedFd>,
}

impl SampledEvent {
    /// Opens an event whose samples have thread, time, CPU and what [`Sampling::report`] adds. If the scope is a CPU,
    /// `cpu` is the same one.
    ///
    /// # Errors
    /// `EACCES`/`EPERM` by `perf_event_paranoid`, ownership or seccomp; `ENOENT`, `EOPNOTSUPP` or
    /// `ENODEV` if the processor or virtual machine lacks it; `EINVAL` if the PMU cannot exclude
    /// the kernel (IBS before Linux 6.15) or cannot follow a thread (IBS before Linux 6.2);
    /// `ENODATA` if the event needs an auxiliary one beside it; `ESRCH` if the thread has ended;
    /// `EMFILE` at the limit of open files.
    pub fn open(sampling: &Sampling, scope: Scope, cpu: u32) -> io::Result<Self> {
        let leader = match sampling.leader {
            Some(event) => {
                let mut attr = event.attributes(sampling.user_only);
                let tid = scope.apply(&mut attr);
                Some(perf::open(attr, tid, Some(cpu), None)?)
            }
            None => None,
        };
        let mut attr = sampling.event.attributes(sampling.user_only);
        attr.sample_period = sampling.period;
        attr.sample_type =
            u64::from(abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_TIME | abi::PERF_SAMPLE_CPU);
        attr.sample_type |= u64::from(match sampling.report {
            Report::Address => abi::PERF_SAMPLE_ADDR,
            Report::Data => {
                abi::PERF_SAMPLE_ADDR | abi::PERF_SAMPLE_WEIGHT | abi::PERF_SAMPLE_DATA_SRC
            }
            Report::Code => abi::PERF_SAMPLE_IP,
        });
        if sampling.report == Report::Code {
            attr.set_mmap(1);
            attr.set_mmap2(1);
            attr.set_task(1);
        }
        attr.set_precise_ip(u64::from(sampling.precise));
        // Records of an AUX area have thread, time and CPU too.
        attr.set_sample_id_all(1);
        let tid = scope.apply(&mut attr);
        let group = leader.as_ref().map(AsFd::as_fd);
        let descriptor = perf::open(attr, tid, Some(cpu), group)?;
        Ok(Self { descriptor, report: sampling.report, _leader: leader })
    }

    /// Pauses sampling in all threads that inherited the event.
    ///
    /// # Errors
    /// Those of ioctl(2).
    pub fn pause(&self) -> io::Result<()> {
        // SAFETY: an open descriptor of a perf event; the call changes no memory of ours.
        let result = unsafe { ioctls::DISABLE(self.raw(), 0) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Continues after [`SampledEvent::pause`].
    ///
    /// # Errors
    /// Those of ioctl(2).
    pub fn resume(&self) -> io::Result<()> {
        // SAFETY: as above.
        let result = unsafe { ioctls::ENABLE(self.raw(), 0) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// What its samples report.
    pub(crate) const fn report(&self) -> Report {
        self.report
    }

    pub(crate) fn raw(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pmu_that_does_not_exist_is_refused() {
        let event = Event { pmu: u32::MAX, config: 0, config1: 0 };
        let sampling = Sampling { event, ..Sampling::PAGE_FAULTS };
        assert!(SampledEvent::open(&sampling, Scope::Thread(0), 0).is_err());
        let behind = Sampling { leader: Some(event), ..Sampling::PAGE_FAULTS };
        assert!(SampledEvent::open(&behind, Scope::Thread(0), 0).is_err());
    }
}
