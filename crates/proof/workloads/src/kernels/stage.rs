//! What a kernel's threads do together: fill, mitigate, work; and how long the work took.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use numapilot_observe::lab::MarkKind;

use super::KernelError;
use super::clock::Clock;
use super::pinned_threads::{CpuSlot, PinnedThreads};
use crate::team::Worker;

/// What all threads of a run share.
#[derive(Debug)]
pub(super) struct Run<'a> {
    /// Which thread is pinned where.
    pub pinned: &'a PinnedThreads,
    /// What time is measured with.
    pub clock: &'a Clock,
    /// What the lab's report calls the work.
    pub region: String,
    worked: Mutex<Duration>,
    /// When the first thread began the work under way, and when the last ended, so far; in
    /// nanoseconds.
    begun_ns: AtomicU64,
    ended_ns: AtomicU64,
    /// Threads that have come to begin a work, all works together.
    arrived: AtomicUsize,
    failure: Mutex<Option<KernelError>>,
    /// How long rounds go on; one where nobody says.
    lasts: Option<Duration>,
    /// Since when, and the rounds that were made.
    rounds: Mutex<(Duration, Vec<Round>)>,
    more: AtomicBool,
}

/// The work, done once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// When it was done, since the first began.
    pub ended: Duration,
    /// Time of its work.
    pub worked: Duration,
}

impl<'a> Run<'a> {
    pub fn new(
        pinned: &'a PinnedThreads,
        clock: &'a Clock,
        region: String,
        lasts: Option<Duration>,
    ) -> Self {
        Self {
            pinned,
            clock,
            region,
            lasts,
            rounds: Mutex::default(),
            more: AtomicBool::new(false),
            worked: Mutex::default(),
            begun_ns: AtomicU64::new(u64::MAX),
            ended_ns: AtomicU64::new(0),
            arrived: AtomicUsize::new(0),
            failure: Mutex::default(),
        }
    }

    /// The rounds.
    pub fn finish(self) -> Result<Vec<Round>, KernelError> {
        match self.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(failure) => Err(failure),
            None => Ok(self.rounds.into_inner().unwrap_or_else(PoisonError::into_inner).1),
        }
    }

    /// A round is done; whether there is time for another.
    fn end_round(&self) -> bool {
        let worked =
            std::mem::take(&mut *self.worked.lock().unwrap_or_else(PoisonError::into_inner));
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = self.clock.now().saturating_sub(rounds.0);
        rounds.1.push(Round { ended, worked });
        self.lasts.is_some_and(|lasts| ended < lasts)
    }
}

/// Looks at who has arrived before a thread lets others have its CPU.
const LOOKS: u32 = 1 << 10;

/// One thread's view. All threads call the same methods in the same order.
#[derive(Debug)]
pub(super) struct Stage<'a> {
    worker: &'a Worker<'a>,
    run: &'a Run<'a>,
    /// Works that this thread has begun.
    begun: Cell<usize>,
}

impl<'a> Stage<'a> {
    pub fn new(worker: &'a Worker<'a>, run: &'a Run<'a>) -> Self {
        Self { worker, run, begun: Cell::new(0) }
    }

    /// From 0; 0 is the main thread.
    pub fn thread(&self) -> usize {
        self.worker.index
    }

    pub fn pinned(&self) -> &'a PinnedThreads {
        self.run.pinned
    }

    pub fn clock(&self) -> &'a Clock {
        self.run.clock
    }

    /// Where this thread began.
    pub fn slot(&self) -> CpuSlot {
        self.run.pinned.slot(self.worker.index)
    }

    /// Moves this thread.
    pub fn pin_to(&self, slot: CpuSlot) {
        self.note(slot.pin());
    }

    /// Keeps the first failure: all threads go on to the end, so that none waits for one
    /// that is gone.
    pub fn note(&self, result: Result<(), KernelError>) {
        if let Err(error) = result {
            self.run.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    /// Something that is not measured.
    pub fn prepare<R>(&self, work: impl FnOnce() -> R) -> R {
        self.worker.phase("prepare", work)
    }

    /// Something that the main thread does for all, not measured.
    pub fn mitigate(&self, work: impl FnOnce() -> Result<(), KernelError>) {
        self.prepare(|| {
            if self.thread() == 0 {
                self.note(work());
            }
        });
    }

    /// Works in rounds as long as the run lasts, at least one; the sum of what they return. What
    /// is measured in a round is its [`Stage::work`].
    pub fn rounds(&self, mut round: impl FnMut(usize) -> u64) -> u64 {
        let run = self.run;
        self.mitigate(|| {
            run.rounds.lock().unwrap_or_else(PoisonError::into_inner).0 = run.clock.now();
            Ok(())
        });
        let (mut sum, mut done) = (0u64, 0);
        loop {
            sum = sum.wrapping_add(round(done));
            done += 1;
            self.mitigate(|| {
                run.more.store(run.end_round(), Relaxed);
                Ok(())
            });
            if !run.more.load(Relaxed) {
                return sum;
            }
        }
    }

    /// What is measured, from the moment the first thread begins until the last is done.
    pub fn work<R>(&self, work: impl FnOnce() -> R) -> R {
        let main = self.thread() == 0;
        let run = self.run;
        let result = self.worker.phase("work", || {
            self.gather();
            if main {
                run.clock.mark(MarkKind::Begin, &run.region);
            }
            run.begun_ns.fetch_min(self.now_ns(), Relaxed);
            let result = work();
            run.ended_ns.fetch_max(self.now_ns(), Relaxed);
            result
        });
        if main {
            run.clock.mark(MarkKind::End, &run.region);
            // Nobody begins the next phase without this thread.
            let begun = run.begun_ns.swap(u64::MAX, Relaxed);
            let took = run.ended_ns.swap(0, Relaxed).saturating_sub(begun);
            *run.worked.lock().unwrap_or_else(PoisonError::into_inner) +=
                Duration::from_nanos(took);
        }
        result
    }

    /// Waits awake until all threads run: those that a barrier has just woken come one after
    /// the other, and who comes late would lengthen the work.
    fn gather(&self) {
        self.begun.set(self.begun.get() + 1);
        let all = self.begun.get() * self.run.pinned.threads();
        self.run.arrived.fetch_add(1, Relaxed);
        let mut looks = 0u32;
        while self.run.arrived.load(Relaxed) < all {
            looks += 1;
            // Who is missing may need this CPU.
            if looks.is_multiple_of(LOOKS) {
                thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.run.clock.now().as_nanos()).unwrap_or(u64::MAX)
    }
}
