//! `--jobs`: how many emulated machines run at once.

use std::num::NonZeroUsize;
use std::thread;

use numapilot_workloads::memory::available_bytes;

/// Upper limit of an emulated machine's memory.
const BYTES: u64 = 4 << 30;
/// Tenths of a CPU that an emulated machine keeps busy. Threads emulate its CPUs, but it boots on
/// one.
const TENTHS_OF_CPU: usize = 14;

/// The option of verbs that run trials or estimate their time.
#[derive(clap::Args)]
pub struct Jobs {
    /// Number of trials that run at once on emulated machines; trials on this host always run alone
    /// [default: what the CPUs and the free memory allow: 2 on 2 CPUs with 8 GiB].
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

impl Jobs {
    pub fn number(&self) -> NonZeroUsize {
        self.jobs.unwrap_or_else(|| {
            let cpus = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
            allowed(cpus, available_bytes().unwrap_or(0))
        })
    }
}

/// The number of machines that the CPUs and the memory allow.
fn allowed(cpus: NonZeroUsize, bytes: u64) -> NonZeroUsize {
    let busy = (10 * cpus.get()).div_ceil(TENTHS_OF_CPU);
    let room = usize::try_from(bytes / BYTES).unwrap_or(usize::MAX);
    NonZeroUsize::new(busy.min(room)).unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpus_and_the_memory_allow_as_many_as_they_hold() {
        let jobs = |cpus, gib: u64| allowed(NonZeroUsize::new(cpus).unwrap(), gib << 30).get();
        assert_eq!([1, 2, 4, 16].map(|cpus| jobs(cpus, 64)), [1, 2, 3, 12]);
        assert_eq!([0, 4, 8, 15].map(|gib| jobs(16, gib)), [1, 1, 2, 3]);
    }
}
