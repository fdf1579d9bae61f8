//! Why a process may not use an existing CPU.
//!
//! Sources: sched_setaffinity(2), cpuset(7), Documentation/admin-guide/kernel-parameters.txt
//! (`isolcpus=`). A process cannot leave its cpuset. An affinity, which also keeps processes off
//! isolated CPUs, is only a default that every process may change for itself. A trial shows which
//! of them applies.

use std::fmt;
use std::fs;
use std::io;

use numapilot_topology::CpuSet;

use crate::prepare::affinity::{WIDEN, attempt};

/// The reason why a process may not use some CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// They are isolated from the scheduler since boot.
    Isolated,
    /// The affinity that the process inherited excludes them.
    Affinity,
    /// The cpuset of the process excludes them.
    Cpuset,
    /// Unknown, because the system calls are refused.
    Unknown,
}

impl Denial {
    /// The reason why this process may not use these CPUs of the running machine.
    #[must_use]
    pub fn of(cpus: &CpuSet) -> Self {
        let isolated = fs::read_to_string("/sys/devices/system/cpu/isolated");
        let isolated = CpuSet::parse_list(isolated.unwrap_or_default().trim()).unwrap_or_default();
        Self::from_trial(cpus, &isolated, attempt(cpus))
    }

    /// `trial` is the affinity that a thread got when it requested `cpus`.
    fn from_trial(cpus: &CpuSet, isolated: &CpuSet, trial: io::Result<CpuSet>) -> Self {
        match trial {
            Ok(got) if !cpus.is_subset(&got) => Self::Cpuset,
            Ok(_) if cpus.intersection(isolated).is_empty() => Self::Affinity,
            Ok(_) => Self::Isolated,
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Self::Cpuset,
            Err(_) => Self::Unknown,
        }
    }

    /// The remedy.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Isolated | Self::Affinity => {
                "numapilot run -a (--all) uses them nevertheless, like numactl -a"
            }
            Self::Cpuset => WIDEN,
            Self::Unknown => "see the cpuset of this container or service, and its seccomp filter",
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Isolated => "isolated from the scheduler since boot (isolcpus=)",
            Self::Affinity => {
                "outside the affinity that this process inherited (taskset, a service manager)"
            }
            Self::Cpuset => "outside the cpuset of this process",
            Self::Unknown => "outside the affinity or the cpuset of this process",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_shows_when_it_is_tried() {
        let set = |text: &str| CpuSet::parse_list(text).unwrap();
        let (three, isolated) = (set("3"), set("3,6-7"));
        let trial = |got: &str| Ok(set(got));
        assert_eq!(Denial::from_trial(&three, &isolated, trial("3")), Denial::Isolated);
        assert_eq!(Denial::from_trial(&three, &set(""), trial("3")), Denial::Affinity);
        assert_eq!(Denial::from_trial(&set("2-3"), &isolated, trial("2")), Denial::Cpuset);
        let refused = |errno| Err(io::Error::from_raw_os_error(errno));
        assert_eq!(Denial::from_trial(&three, &isolated, refused(libc::EINVAL)), Denial::Cpuset);
        assert_eq!(Denial::from_trial(&three, &isolated, refused(libc::EPERM)), Denial::Unknown);
    }
}
