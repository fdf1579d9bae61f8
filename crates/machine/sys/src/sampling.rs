//! Opening a source of sampled memory accesses.
//!
//! Source: perf_event_open(2). Three kinds of hardware tag an instruction or a load and
//! report its data address: AMD's Instruction Based Sampling (PMU `ibs_op`), Intel's
//! PEBS with a load latency event, Arm's Statistical Profiling Extension (`arm_spe_0`).

use std::io;
use std::os::fd::OwnedFd;

use perf_event_open_sys::bindings as abi;

use crate::perf::{self, Event};

/// A sampled event of the calling thread; sampling ends when dropped.
#[derive(Debug)]
pub struct Sampler {
    // Held for its descriptor: closing it ends the event.
    _descriptor: OwnedFd,
}

impl Sampler {
    /// Opens the event, disabled: one sample every `period` events, with the data address.
    ///
    /// `precise` is how exactly the sample must belong to its instruction: 0 for PMUs that
    /// are precise by construction (`ibs_op`, `arm_spe_0`), 2 for PEBS.
    ///
    /// # Errors
    /// `EACCES`/`EPERM` by `perf_event_paranoid` or seccomp; `ENOENT`, `EOPNOTSUPP` or
    /// `ENODEV` when the processor or virtual machine lacks it; `EINVAL` when the PMU
    /// refuses to leave out the kernel (`user_only`), as IBS before 6.15 does; `ENODATA`
    /// when the event wants an auxiliary one beside it (Intel from Sapphire Rapids on).
    pub fn open(event: Event, period: u64, precise: u8, user_only: bool) -> io::Result<Self> {
        let mut attr = event.attributes(user_only);
        attr.sample_period = period;
        attr.sample_type = u64::from(abi::PERF_SAMPLE_IP | abi::PERF_SAMPLE_ADDR);
        attr.set_precise_ip(u64::from(precise));
        attr.set_disabled(1);
        // The calling thread, on any CPU.
        let descriptor = perf::open(attr, 0, None, None)?;
        Ok(Self { _descriptor: descriptor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pmu_that_does_not_exist_is_refused() {
        let event = Event { pmu: u32::MAX, config: 0, config1: 0 };
        assert!(Sampler::open(event, 100_000, 0, true).is_err());
    }
}
