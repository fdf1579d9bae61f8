//! CPU time and page faults of processes.

use std::time::Duration;

use procfs::process::Stat;

/// CPU time and faults so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// In user mode, in clock ticks.
    user_ticks: u64,
    /// In the kernel, in clock ticks.
    system_ticks: u64,
    /// Faults without I/O.
    pub minor_faults: u64,
    /// Faults with I/O.
    pub major_faults: u64,
}

impl Used {
    /// Usage of a process, including the children that it has waited for.
    pub(super) fn of(stat: &Stat) -> Self {
        let taken = |n: i64| u64::try_from(n).unwrap_or(0);
        Self {
            user_ticks: stat.utime + taken(stat.cutime),
            system_ticks: stat.stime + taken(stat.cstime),
            minor_faults: stat.minflt + stat.cminflt,
            major_faults: stat.majflt + stat.cmajflt,
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            user_ticks: self.user_ticks + other.user_ticks,
            system_ticks: self.system_ticks + other.system_ticks,
            minor_faults: self.minor_faults + other.minor_faults,
            major_faults: self.major_faults + other.major_faults,
        }
    }

    /// CPU time of the children that a process has waited for.
    pub(super) fn by_children(stat: &Stat) -> Duration {
        ticks(u64::try_from(stat.cutime + stat.cstime).unwrap_or(0))
    }

    /// CPU time in user mode.
    #[must_use]
    pub fn user(self) -> Duration {
        ticks(self.user_ticks)
    }

    /// CPU time in the kernel.
    #[must_use]
    pub fn system(self) -> Duration {
        ticks(self.system_ticks)
    }
}

fn ticks(n: u64) -> Duration {
    Duration::from_secs_f64(n as f64 / procfs::ticks_per_second() as f64)
}
