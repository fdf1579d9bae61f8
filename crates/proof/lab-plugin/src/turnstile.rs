//! The waiting place for CPUs whose simulated clock is ahead.
//!
//! A CPU that waits is woken by the CPU whose clock releases it. It never waits for long, because
//! QEMU's exclusive sections and the guest's interrupts need every CPU. A CPU that is still ahead
//! then should run only for a moment.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use numapilot_lab_model::QUANTUM_PS;

/// The maximum waiting time of a CPU, in host time.
const PATIENCE: Duration = Duration::from_millis(5);
/// No CPU waits here.
const NOBODY: u64 = u64::MAX;

#[derive(Debug)]
#[repr(align(64))]
struct Place {
    /// The floor that releases the CPU.
    until_ps: AtomicU64,
    /// The thread that runs the CPU, which never changes.
    thread: OnceLock<Thread>,
}

/// How a CPU's wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The CPU is not, or no longer, too far ahead.
    Level,
    /// Another CPU has let it pass.
    LetBy,
    /// The floor has not reached the required time before the timeout.
    Tired {
        /// The floor that would release the CPU.
        until_ps: u64,
    },
}

/// The turnstile; see the module documentation.
#[derive(Debug)]
pub struct Turnstile {
    places: Vec<Place>,
    waiting: AtomicUsize,
}

impl Turnstile {
    /// A turnstile for this number of CPUs.
    pub fn new(cpus: usize) -> Self {
        let place = |_| Place { until_ps: AtomicU64::new(NOBODY), thread: OnceLock::new() };
        Self { places: (0..cpus).map(place).collect(), waiting: AtomicUsize::new(0) }
    }

    /// Blocks a CPU, on its own thread, until it is no longer too far ahead of the floor, or until
    /// the timeout. Without a floor no CPU is ahead.
    pub fn wait(&self, cpu: usize, now_ps: u64, floor_ps: impl Fn() -> Option<u64>) -> Left {
        let until_ps = now_ps.saturating_sub(QUANTUM_PS);
        let may_go = || floor_ps().is_none_or(|floor| floor >= until_ps);
        let Some(place) = self.places.get(cpu).filter(|_| !may_go()) else {
            return Left::Level;
        };
        place.thread.get_or_init(thread::current);
        let end = Instant::now() + PATIENCE;
        place.until_ps.store(until_ps, SeqCst);
        self.waiting.fetch_add(1, SeqCst);
        let left = loop {
            if may_go() {
                break Left::Level;
            }
            if place.until_ps.load(SeqCst) == NOBODY {
                break Left::LetBy;
            }
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break Left::Tired { until_ps };
            }
            thread::park_timeout(rest);
        };
        place.until_ps.store(NOBODY, SeqCst);
        self.waiting.fetch_sub(1, SeqCst);
        left
    }

    /// Releases the CPUs that the floor permits, after it may have moved.
    pub fn advance(&self, floor_ps: impl Fn() -> Option<u64>) {
        if self.waiting.load(SeqCst) == 0 {
            return;
        }
        self.release(floor_ps().unwrap_or(NOBODY - 1));
    }

    /// Releases all CPUs, so that they can take pending interrupts.
    pub fn open(&self) {
        self.release(NOBODY - 1);
    }

    fn release(&self, floor_ps: u64) {
        for place in &self.places {
            let until_ps = place.until_ps.load(SeqCst);
            if until_ps <= floor_ps
                && place.until_ps.compare_exchange(until_ps, NOBODY, SeqCst, SeqCst).is_ok()
            {
                place.thread.get().inspect(|thread| thread.unpark());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_ahead_waits_until_the_floor_comes_up() {
        let (turnstile, floor) = (Turnstile::new(2), AtomicU64::new(0));
        let read = || Some(floor.load(SeqCst));
        let order = AtomicUsize::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                // The timeout may expire on a busy host: then the CPU waits again.
                while turnstile.wait(1, 2 * QUANTUM_PS, read) != Left::Level {}
                order.fetch_max(1, SeqCst);
            });
            while turnstile.waiting.load(SeqCst) == 0 {
                thread::yield_now();
            }
            turnstile.advance(read);
            assert_eq!(order.load(SeqCst), 0);
            floor.store(QUANTUM_PS, SeqCst);
            turnstile.advance(read);
        });
        assert_eq!(order.load(SeqCst), 1);
        assert_eq!(turnstile.waiting.load(SeqCst), 0);
    }

    #[test]
    fn nobody_waits_without_a_floor_within_a_quantum_or_forever() {
        let turnstile = Turnstile::new(1);
        assert_eq!(turnstile.wait(0, 5 * QUANTUM_PS, || None), Left::Level);
        assert_eq!(turnstile.wait(0, QUANTUM_PS, || Some(0)), Left::Level);
        let begin = Instant::now();
        let until_ps = 4 * QUANTUM_PS;
        assert_eq!(turnstile.wait(0, 5 * QUANTUM_PS, || Some(0)), Left::Tired { until_ps });
        assert!(begin.elapsed() >= PATIENCE);
    }
}
