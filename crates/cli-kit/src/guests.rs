//! The number of emulated machines that run at once.

use std::num::NonZeroUsize;
use std::thread;

use numapilot_observe::available_bytes;

/// Upper limit of an emulated machine's memory.
const BYTES: u64 = 4 << 30;

/// The number of machines that this host's CPUs and free memory allow.
#[must_use]
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
