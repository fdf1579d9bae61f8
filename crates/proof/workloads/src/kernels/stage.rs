//! The common course of a kernel's threads (fill, mitigate, work), and the time of the work.

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
    /// The CPU of each thread.
    pub pinned: &'a PinnedThreads,
    /// The clock for all measurements.
    pub clock: &'a Clock,
    /// The name of the work in the lab's report.
    pub region: String,
    worked: Mutex<Duration>,
    /// When the first thread began the current work, and when the last one to end so far ended it,
    /// in nanoseconds.
    begun_ns: AtomicU64,
    ended_ns: AtomicU64,
    /// Number of times that threads have arrived at the beginning of any work.
    arrived: AtomicUsize,
    failure: Mutex<Option<KernelError>>,
    /// How long rounds continue; one round by default.
    lasts: Option<Duration>,
    /// The start of the first round, and the rounds so far.
    rounds: Mutex<(Duration, Vec<Round>)>,
    more: AtomicBool,
}

/// One round of the work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// When it ended, since the first round began.
    pub ended: Duration,
    /// The time of its work.
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

    /// Ends the run and returns its rounds.
    pub fn finish(self) -> Result<Vec<Round>, KernelError> {
        match self.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(failure) => Err(failure),
            None => Ok(self.rounds.into_inner().unwrap_or_else(PoisonError::into_inner).1),
        }
    }

    /// Ends a round; returns whether there is time for another.
    fn end_round(&self) -> bool {
        let worked =
            std::mem::take(&mut *self.worked.lock().unwrap_or_else(PoisonError::into_inner));
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = self.clock.now().saturating_sub(rounds.0);
        rounds.1.push(Round { ended, worked });
        self.lasts.is_some_and(|lasts| ended < lasts)
    }
}

/// Checks for missing threads before a thread gives up its CPU.
const LOOKS: u32 = 1 << 10;

/// One thread's view of the run. All threads call the same methods in the same order.
#[derive(Debug)]
pub(super) struct Stage<'a> {
    worker: &'a Worker<'a>,
    run: &'a Run<'a>,
    /// Number of works that this thread has begun.
    begun: Cell<usize>,
}

impl<'a> Stage<'a> {
    pub fn new(worker: &'a Worker<'a>, run: &'a Run<'a>) -> Self {
        Self { worker, run, begun: Cell::new(0) }
    }

    /// The thread's number; 0 is the main thread.
    pub fn thread(&self) -> usize {
        self.worker.index
    }

    pub fn pinned(&self) -> &'a PinnedThreads {
        self.run.pinned
    }

    pub fn clock(&self) -> &'a Clock {
        self.run.clock
    }

    /// The CPU on which this thread began.
    pub fn slot(&self) -> CpuSlot {
        self.run.pinned.slot(self.worker.index)
    }

    /// Pins this thread to another CPU.
    pub fn pin_to(&self, slot: CpuSlot) {
        self.note(slot.pin());
    }

    /// Keeps the first failure. All threads continue to the end, so that none waits for one that is
    /// gone.
    pub fn note(&self, result: Result<(), KernelError>) {
        if let Err(error) = result {
            self.run.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    /// Runs something that is not measured.
    pub fn prepare<R>(&self, work: impl FnOnce() -> R) -> R {
        self.worker.phase("prepare", work)
    }

    /// The main thread runs something for all threads, without measuring it.
    pub fn mitigate(&self, work: impl FnOnce() -> Result<(), KernelError>) {
        self.prepare(|| {
            if self.thread() == 0 {
                self.note(work());
            }
        });
    }

    /// Repeats the work in rounds for as long as the run lasts, at least once. Returns the sum of
    /// the rounds' results. [`Stage::work`] is the measured part of a round.
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

    /// Runs the measured part, from the moment the first thread begins it until the last one ends
    /// it.
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
            // No thread begins the next phase without this one.
            let begun = run.begun_ns.swap(u64::MAX, Relaxed);
            let took = run.ended_ns.swap(0, Relaxed).saturating_sub(begun);
            *run.worked.lock().unwrap_or_else(PoisonError::into_inner) +=
                Duration::from_nanos(took);
        }
        result
    }

    /// Busy-waits until all threads run. A barrier wakes threads one after the other, and a late
    /// one would lengthen the work.
    fn gather(&self) {
        self.begun.set(self.begun.get() + 1);
        let all = self.begun.get() * self.run.pinned.threads();
        self.run.arrived.fetch_add(1, Relaxed);
        let mut looks = 0u32;
        while self.run.arrived.load(Relaxed) < all {
            looks += 1;
            // A missing thread may need this CPU.
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
