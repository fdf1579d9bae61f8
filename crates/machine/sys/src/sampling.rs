//! Sampled events: every so many events the kernel notes what it was that happened.
//!
//! Source: perf_event_open(2). Page faults are sampled by the kernel itself. Three kinds of
//! hardware tag an instruction or a load and report its data address: AMD's Instruction Based
//! Sampling (PMU `ibs_op`), Intel's PEBS with a load latency event, Arm's Statistical
//! Profiling Extension (`arm_spe_0`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use perf_event_open_sys::{bindings as abi, ioctls};

use crate::perf::{self, Event, Scope};

/// What is sampled, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// The event.
    pub event: Event,
    /// Events for each sample.
    pub period: u64,
    /// How exactly a sample must belong to its instruction: 0 for the kernel's events and for
    /// PMUs that are precise by construction (`ibs_op`, `arm_spe_0`), 2 for PEBS.
    pub precise: u8,
    /// Whether a sample tells where its data came from, and what that took.
    pub data: bool,
    /// Leaves out what the kernel does.
    pub user_only: bool,
    /// An event that has to count beside it (`mem-loads-aux`, Intel from Sapphire Rapids on).
    pub leader: Option<Event>,
}

impl Sampling {
    /// Every page fault.
    pub const PAGE_FAULTS: Self = Self {
        event: Event::PAGE_FAULTS,
        period: 1,
        precise: 0,
        data: false,
        user_only: true,
        leader: None,
    };
}

/// A sampled event of one target on one CPU. It ends when dropped.
#[derive(Debug)]
pub struct SampledEvent {
    descriptor: OwnedFd,
    /// Held for its descriptor.
    _leader: Option<OwnedFd>,
}

impl SampledEvent {
    /// Opens an event that gives samples with address, thread, CPU and time. Where the scope
    /// is a CPU `cpu` is that one.
    ///
    /// # Errors
    /// `EACCES`/`EPERM` by `perf_event_paranoid`, ownership or seccomp; `ENOENT`,
    /// `EOPNOTSUPP` or `ENODEV` when the processor or virtual machine lacks it; `EINVAL` when
    /// the PMU refuses to leave out the kernel, as IBS before 6.15 does, or to follow a thread,
    /// as IBS before 6.2 does; `ENODATA` when the event wants an auxiliary one beside it;
    /// `ESRCH` when the thread is gone; `EMFILE` at the limit of open files.
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
        attr.sample_type = u64::from(
            abi::PERF_SAMPLE_TID
                | abi::PERF_SAMPLE_TIME
                | abi::PERF_SAMPLE_ADDR
                | abi::PERF_SAMPLE_CPU,
        );
        if sampling.data {
            attr.sample_type |= u64::from(abi::PERF_SAMPLE_WEIGHT | abi::PERF_SAMPLE_DATA_SRC);
        }
        attr.set_precise_ip(u64::from(sampling.precise));
        // Records of an AUX area, too, tell whose they are.
        attr.set_sample_id_all(1);
        let tid = scope.apply(&mut attr);
        let group = leader.as_ref().map(AsFd::as_fd);
        let descriptor = perf::open(attr, tid, Some(cpu), group)?;
        Ok(Self { descriptor, _leader: leader })
    }

    /// Ends sampling for now, in all threads that inherited the event.
    ///
    /// # Errors
    /// Those of ioctl(2).
    pub fn pause(&self) -> io::Result<()> {
        // SAFETY: an open descriptor of a perf event; the call changes nothing of ours.
        let result = unsafe { ioctls::DISABLE(self.raw(), 0) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Goes on after [`SampledEvent::pause`].
    ///
    /// # Errors
    /// Those of ioctl(2).
    pub fn resume(&self) -> io::Result<()> {
        // SAFETY: as above.
        let result = unsafe { ioctls::ENABLE(self.raw(), 0) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
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
