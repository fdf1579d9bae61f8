//! The programs that sample, and how often. Several programs of a guest may sample at the same
//! time. The PMU samples with the shortest period that any of them requests. Each sample contains
//! that period, so that the other programs can discard what exceeds their rate.

use std::sync::atomic::{AtomicU64, Ordering};

/// Programs that can sample at the same time.
pub(crate) const SAMPLERS: usize = 8;

/// Words of the table: the owner and period of each sampler.
pub(crate) const WORDS: usize = 2 * SAMPLERS;

/// The samplers of a PMU, and the word that holds the shortest of their periods. A change of
/// the table also updates that word.
#[derive(Clone, Copy, Debug)]
pub struct Samplers<'a> {
    table: &'a [AtomicU64],
    shortest: &'a AtomicU64,
}

impl<'a> Samplers<'a> {
    pub(crate) fn new(table: &'a [AtomicU64], shortest: &'a AtomicU64) -> Self {
        Self { table, shortest }
    }

    /// The owner and period of each sampler.
    fn all(&self) -> impl Iterator<Item = (&'a AtomicU64, &'a AtomicU64)> {
        self.table.as_chunks::<2>().0.iter().map(|[owner, period]| (owner, period))
    }

    /// Claims a place for an owner, which is a number other than 0. Returns `None` when all places
    /// are taken. Places whose owner is no longer alive are released first.
    #[must_use]
    pub fn claim(&self, owner: u64, is_alive: impl Fn(u64) -> bool) -> Option<usize> {
        let take = |place: &AtomicU64, from: u64| {
            place.compare_exchange(from, owner, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        };
        for (at, (place, _)) in self.all().enumerate() {
            let known = place.load(Ordering::SeqCst);
            if known != 0 && !is_alive(known) && take(place, known) {
                self.release(at);
            }
        }
        self.all().position(|(place, _)| take(place, 0))
    }

    /// Requests one sample per this many accesses that missed the first level of cache; 0 for none.
    pub fn set_period(&self, place: usize, accesses: u64) {
        if let Some((_, period)) = self.all().nth(place) {
            period.store(accesses, Ordering::SeqCst);
            self.agree();
        }
    }

    /// Releases a place.
    pub fn release(&self, place: usize) {
        self.set_period(place, 0);
        if let Some((owner, _)) = self.all().nth(place) {
            owner.store(0, Ordering::SeqCst);
        }
    }

    /// Publishes the shortest period, and repeats that if another sampler changed its own
    /// meanwhile.
    fn agree(&self) {
        let wanted = || {
            let periods = self.all().map(|(_, period)| period.load(Ordering::SeqCst));
            periods.filter(|period| *period > 0).min().unwrap_or(0)
        };
        let mut shortest = wanted();
        loop {
            self.shortest.store(shortest, Ordering::SeqCst);
            let now = wanted();
            if now == shortest {
                return;
            }
            shortest = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Memory(Vec<AtomicU64>, AtomicU64);

    impl Memory {
        fn new() -> Self {
            Self((0..WORDS).map(|_| AtomicU64::new(0)).collect(), AtomicU64::new(0))
        }

        fn samplers(&self) -> Samplers<'_> {
            Samplers::new(&self.0, &self.1)
        }

        fn shortest(&self) -> u64 {
            self.1.load(Ordering::SeqCst)
        }
    }

    #[test]
    fn who_wants_most_decides() {
        let memory = Memory::new();
        let samplers = memory.samplers();
        let [a, b] = [1, 2].map(|owner| samplers.claim(owner, |_| true).unwrap());
        let mut seen = Vec::new();
        for (place, period) in [(a, 1000), (b, 300), (b, 5000), (a, 0), (b, 0)] {
            samplers.set_period(place, period);
            seen.push(memory.shortest());
        }
        assert_eq!(seen, [1000, 300, 1000, 5000, 0]);
        samplers.set_period(a, 7);
        samplers.release(a);
        assert_eq!(memory.shortest(), 0);
    }

    #[test]
    fn places_of_the_dead_are_free() {
        let memory = Memory::new();
        let samplers = memory.samplers();
        for owner in 1..=SAMPLERS as u64 {
            let place = samplers.claim(owner, |_| true).unwrap();
            samplers.set_period(place, 100 * owner);
        }
        assert_eq!(samplers.claim(9, |_| true), None);
        let place = samplers.claim(9, |owner| owner != 1).unwrap();
        // No other sampler has a period as short as the dead one's.
        assert_eq!((place, memory.shortest()), (0, 200));
    }

    #[test]
    fn changes_at_the_same_time_are_all_seen() {
        let memory = Memory::new();
        std::thread::scope(|scope| {
            for owner in 1..=4 {
                let samplers = memory.samplers();
                scope.spawn(move || {
                    let place = samplers.claim(owner, |_| true).unwrap();
                    (1..5000).for_each(|round| samplers.set_period(place, 100 * owner + round));
                    samplers.set_period(place, owner * 10);
                });
            }
        });
        assert_eq!(memory.shortest(), 10);
    }

    #[test]
    fn places_that_are_not_there_are_left_alone() {
        let memory = Memory::new();
        memory.samplers().set_period(SAMPLERS, 5);
        memory.samplers().release(SAMPLERS);
        assert_eq!(memory.shortest(), 0);
    }
}
