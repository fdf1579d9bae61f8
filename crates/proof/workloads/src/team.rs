//! Threads that work through phases together, and the time of each phase.
//!
//! A thread takes part in all phases: the thread that fills a slice of the input also reads it. The
//! caller is worker 0, like the master thread in OpenMP. N workers are therefore N threads, with no
//! additional thread for a tool that places threads from outside.

use std::sync::{Barrier, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use numapilot_sys::mark;
use rustix::time::{ClockId, clock_gettime};

use crate::WorkloadError;

/// The phase that generates the input; it is not part of the measured time.
pub const LOAD: &str = "load";

/// The time of a phase, from when all workers have entered it until all have left it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// The name of the phase.
    pub name: &'static str,
    /// Wall time.
    pub duration: Duration,
    /// CPU time of the whole process. The difference to `duration` times the number of threads was
    /// spent waiting for a lock, for memory or for a CPU.
    pub cpu: Duration,
}

/// One thread of the team.
#[derive(Debug)]
pub struct Worker<'team> {
    /// The worker's number; 0 is the caller's thread.
    pub index: usize,
    barrier: &'team Barrier,
    clock: &'team Mutex<Clock>,
}

/// The phases so far, and the start of the current one.
#[derive(Debug, Default)]
struct Clock {
    began: Option<(Instant, Duration)>,
    phases: Vec<Phase>,
}

impl Worker<'_> {
    /// Runs this worker's part of a phase. Every worker of the team must call it, for the same
    /// phases in the same order.
    pub fn phase<R>(&self, name: &'static str, work: impl FnOnce() -> R) -> R {
        self.barrier.wait();
        // The first worker to leave the barrier starts the clock: on busy CPUs the others may
        // arrive only after it has done their work, too. In a lab, the measured part is a region of
        // interest, and likewise the first mark begins it.
        if name != LOAD {
            mark::begin_work();
        }
        let now = (Instant::now(), process_cpu_time());
        let mut clock = self.clock();
        clock.began = Some(clock.began.map_or(now, |began| began.min(now)));
        drop(clock);
        let result = work();
        self.barrier.wait();
        if self.index == 0 {
            if name != LOAD {
                mark::end_work();
            }
            let mut clock = self.clock();
            let (start, cpu) = clock.began.take().unwrap_or(now);
            let cpu = process_cpu_time().saturating_sub(cpu);
            clock.phases.push(Phase { name, duration: start.elapsed(), cpu });
        }
        result
    }

    fn clock(&self) -> MutexGuard<'_, Clock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn process_cpu_time() -> Duration {
    // This clock exists since Linux 2.6.12 and never shows a negative time.
    clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap_or_default()
}

/// Runs `body` on one worker per home, and passes it the home. Returns the results of all workers,
/// worker 0 first, and the phases in order.
///
/// # Errors
/// [`WorkloadError::Thread`] when a thread cannot be started; in that case no worker has run.
pub fn run<H: Send, R: Send>(
    homes: Vec<H>,
    body: impl Fn(&Worker<'_>, H) -> R + Sync,
) -> Result<(Vec<R>, Vec<Phase>), WorkloadError> {
    let threads = homes.len();
    let barrier = Barrier::new(threads);
    let clock = Mutex::new(Clock::default());
    // No worker may wait at the barrier for a thread that does not exist. Workers therefore start
    // when this lock is released, and only if it says that all of them exist.
    let complete = RwLock::new(false);
    let work = |index, home| body(&Worker { index, barrier: &barrier, clock: &clock }, home);
    let results = thread::scope(|scope| {
        let mut gate = complete.write().unwrap_or_else(PoisonError::into_inner);
        let mut homes = homes.into_iter().enumerate();
        let Some((_, home)) = homes.next() else { return Ok(Vec::new()) };
        let mut handles = Vec::with_capacity(threads - 1);
        for (index, home) in homes {
            let (complete, work) = (&complete, &work);
            let handle = thread::Builder::new().name(format!("worker-{index}")).spawn_scoped(
                scope,
                move || {
                    let start = *complete.read().unwrap_or_else(PoisonError::into_inner);
                    start.then(|| work(index, home))
                },
            );
            match handle {
                Ok(handle) => handles.push(handle),
                Err(source) => {
                    return Err(WorkloadError::Thread { number: index + 1, threads, source });
                }
            }
        }
        *gate = true;
        drop(gate);
        let mut results = vec![work(0, home)];
        for handle in handles {
            match handle.join() {
                Ok(result) => results.extend(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(results)
    })?;
    Ok((results, clock.into_inner().unwrap_or_else(PoisonError::into_inner).phases))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    #[test]
    fn a_phase_begins_when_all_have_ended_the_one_before() {
        let arrived = AtomicUsize::new(0);
        let homes = vec![100, 200, 300, 400, 500];
        let (seen, phases) = run(homes, |worker, home| {
            worker.phase("first", || arrived.fetch_add(1, Relaxed));
            home + worker.phase("second", || arrived.load(Relaxed)) * 10 + worker.index
        })
        .unwrap();
        assert_eq!(seen, [150, 251, 352, 453, 554]);
        assert_eq!(phases.iter().map(|p| p.name).collect::<Vec<_>>(), ["first", "second"]);
    }
}
