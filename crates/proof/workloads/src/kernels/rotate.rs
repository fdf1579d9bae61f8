//! k6, rotate: repeats k5 every P seconds. The threads move to the next node after each period.
//!
//! Moving the memory after the threads pays only if a period of local accesses saves more than the
//! move costs. Otherwise pages play ping-pong. `best` finds out by measuring: it lets the threads
//! work for one pass away from their memory, moves the memory once, compares and decides. This pass
//! is what it takes longer than `follow`. Moves are part of the measured time. The prediction
//! leaves them out, because no machine description says what they cost (in the lab, this program's
//! time to name the pages counts, and the kernel's time does not).
//! takes to name the pages, the kernel nothing).

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::clock::Clock;
use super::parts::Parts;
use super::pinned_threads::PinnedThreads;
use super::stage::Stage;
use super::{Area, KernelError, Options, Pathology, Place, Step};

/// Passes of each thread over its array.
const PASSES: usize = 24;
/// Passes in a period, by default.
const PASSES_PER_PERIOD: u32 = 4;

/// See the module.
pub(super) struct Rotate {
    place: Place,
    period: Option<Duration>,
    arrays: Parts,
    /// The state of the main thread.
    book: Mutex<Book>,
    /// By how many nodes the threads have moved, for all threads to read.
    gone: std::sync::atomic::AtomicUsize,
    decision: AtomicU8,
}

#[derive(Default)]
struct Book {
    /// For each pass: by how many nodes the threads had moved, and how far the pages had followed.
    passes: Vec<(usize, usize)>,
    followed: usize,
    rotated_at: Duration,
    passes_since: u32,
    /// Duration of the first pass, with local memory.
    home: Duration,
}

const UNDECIDED: u8 = 0;
const FOLLOW: u8 = 1;
const STAY: u8 = 2;

impl Rotate {
    pub fn new(
        options: &Options,
        place: Place,
        pinned: &PinnedThreads,
    ) -> Result<Self, KernelError> {
        let decision = match place {
            Place::Best => UNDECIDED,
            Place::Follow => FOLLOW,
            _ => STAY,
        };
        Ok(Self {
            place,
            period: options.period,
            arrays: Parts::new(options, place, pinned)?,
            book: Mutex::default(),
            gone: std::sync::atomic::AtomicUsize::new(0),
            decision: AtomicU8::new(decision),
        })
    }

    /// Called in the main thread after a pass: decides whether threads move on, and whether memory
    /// follows.
    fn turn(&self, stage: &Stage<'_>, took: Duration) -> Result<(), KernelError> {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = self.gone.load(Relaxed);
        let followed = book.followed;
        let away = gone != followed;
        if book.passes.is_empty() {
            book.home = took;
        }
        book.passes.push((gone, followed));
        book.passes_since += 1;
        if away && self.decision.load(Relaxed) == UNDECIDED {
            let moved_in = self.follow(stage, &mut book, gone)?;
            let period = self.period.unwrap_or(took * PASSES_PER_PERIOD).as_secs_f64();
            let saved = 1.0 - book.home.as_secs_f64() / took.as_secs_f64();
            let pays = saved * period > moved_in.as_secs_f64();
            self.decision.store(if pays { FOLLOW } else { STAY }, Relaxed);
        }
        let now = stage.clock().now();
        let is_over = match self.period {
            // A period with less than half a pass left is over.
            Some(period) => now.saturating_sub(book.rotated_at) + took / 2 >= period,
            None => book.passes_since >= PASSES_PER_PERIOD,
        };
        if !is_over {
            return Ok(());
        }
        (book.rotated_at, book.passes_since) = (now, 0);
        self.gone.store(gone + 1, Relaxed);
        if self.decision.load(Relaxed) == FOLLOW {
            self.follow(stage, &mut book, gone + 1)?;
        }
        Ok(())
    }

    /// Moves the pages after the threads. Returns the time that it took.
    fn follow(
        &self,
        stage: &Stage<'_>,
        book: &mut Book,
        gone: usize,
    ) -> Result<Duration, KernelError> {
        let before = stage.clock().now();
        self.arrays.collocate(stage.pinned(), gone)?;
        book.followed = gone;
        Ok(stage.clock().now().saturating_sub(before))
    }
}

impl Pathology for Rotate {
    fn areas(&self) -> Vec<&Area> {
        vec![&self.arrays.area]
    }

    fn run(&self, stage: &Stage<'_>) -> u64 {
        self.arrays.fill_own(stage);
        stage.mitigate(|| {
            self.book.lock().unwrap_or_else(PoisonError::into_inner).rotated_at =
                stage.clock().now();
            Ok(())
        });
        let (mut slot, mut took) = (0, Duration::ZERO);
        let sum = stage.rounds(|round| {
            let mut sum = 0u64;
            for pass in 0..PASSES {
                if round + pass > 0 {
                    stage.work(|| {
                        if stage.thread() == 0 {
                            stage.note(self.turn(stage, took));
                        }
                    });
                }
                let gone = self.gone.load(Relaxed);
                if gone != slot {
                    slot = gone;
                    stage.pin_to(stage.pinned().rotated(stage.thread(), gone));
                }
                let began = stage.clock().now();
                sum = sum.wrapping_add(stage.work(|| self.arrays.pass(stage.thread())));
                took = stage.clock().now().saturating_sub(began);
            }
            sum
        });
        stage.mitigate(|| {
            let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
            let now = (self.gone.load(Relaxed), book.followed);
            book.passes.push(now);
            Ok(())
        });
        sum
    }

    fn expected(&self, rounds: usize) -> u64 {
        self.arrays.expected(PASSES * rounds)
    }

    fn items(&self) -> u64 {
        self.arrays.items(PASSES)
    }

    fn steps(&self, pinned: &PinnedThreads, clock: &Clock) -> Result<Vec<Step>, KernelError> {
        let pace = self.arrays.pace(clock);
        let now = self.arrays.area.homes(pinned)?;
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        // Pages are where the threads were when the pages last followed; interleaved pages stay.
        let homes = |followed: usize| {
            if followed == book.followed || self.place == Place::Interleave {
                return now.clone();
            }
            let parts = now.len() / pinned.threads().max(1);
            let home = |page: usize| pinned.rotated(page / parts.max(1), followed).node;
            (0..now.len()).map(|page| Some(home(page))).collect()
        };
        let steps = book.passes.iter().map(|&(gone, followed)| {
            let loads = self.arrays.loads(pinned, gone, &homes(followed), pace);
            Step::once(loads).times(PASSES as f64 / book.passes.len() as f64)
        });
        Ok(steps.collect())
    }

    fn settled(&self) -> Option<Place> {
        match (self.place, self.decision.load(Relaxed)) {
            (Place::Best, FOLLOW) => Some(Place::Follow),
            (Place::Best, _) => Some(Place::FirstTouch),
            _ => None,
        }
    }

    fn notes(&self) -> Vec<String> {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let moves = book.passes.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
        vec![format!(
            "threads moved {} times, pages followed {moves} times",
            self.gone.load(Relaxed)
        )]
    }
}
