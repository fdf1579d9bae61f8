//! `--jobs`: how many emulated machines run at once.

use std::num::NonZeroUsize;
use std::thread;

use numapilot_workloads::memory::available_bytes;

/// Upper limit of an emulated machine's memory.
const BYTES: u64 = 4 << 30;

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
        self.jobs.unwrap_or_else(allowed_here)
    }
}

/// The number of machines that this host's CPUs and free memory allow.
pub fn allowed_here() -> NonZeroUsize {
    let cpus = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    allowed(cpus, available_bytes().unwrap_or(0))
}

/// The number of machines that the CPUs and the memory allow: one thread runs each.
fn allowed(cpus: NonZeroUsize, bytes: u64) -> NonZeroUsize {
    let room = usize::try_from(bytes / BYTES).unwrap_or(usize::MAX);
    NonZeroUsize::new(cpus.get().min(room)).unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpus_and_the_memory_allow_as_many_as_they_hold() {
        let jobs = |cpus, gib: u64| allowed(NonZeroUsize::new(cpus).unwrap(), gib << 30).get();
        assert_eq!([1, 2, 4, 16].map(|cpus| jobs(cpus, 64)), [1, 2, 4, 16]);
        assert_eq!([0, 4, 8, 15].map(|gib| jobs(16, gib)), [1, 1, 2, 3]);
    }
}
