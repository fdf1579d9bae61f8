//! Places threads from outside, in programs in which the library cannot.
//!
//! A thread of the launcher looks for new threads of the program and its descendants and pins them
//! to their CPUs, a few milliseconds after they have started. It looks every millisecond while a
//! process that needs it has new threads, and at growing intervals otherwise. It never uses more
//! than two per cent of one CPU, and it ends with the program.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use numapilot_observe::Orphans;
use numapilot_sys::affinity;
use numapilot_topology::{CpuId, CpuSet};

use super::outcome::{FromOutside, Outcome};
use super::outside::{OutsideProcesses, ToPlace};
use super::pinner::{Order, Pinner, Seen};
use crate::check_proc;

/// Time before the first look. Loading a program takes about that long. A program that ends earlier
/// has nothing to place and must not be delayed by the look.
const FIRST: Duration = Duration::from_millis(5);
/// Pause between two looks if there were new threads.
const SHORTEST: Duration = Duration::from_millis(1);
/// Longest pause between two looks, if there are no new threads or all processes have the library.
const LONGEST: Duration = Duration::from_millis(50);
/// A pause is at least this many times as long as the look before it.
const REST: u32 = 50;
/// Interval for looking at all threads although none is new, because they may have pinned
/// themselves.
const FULL: Duration = Duration::from_secs(1);

/// The programs that were reported as placed from outside before they started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reported {
    /// None.
    Nothing,
    /// The program of the run.
    Program,
    /// All.
    All,
}

/// The watching thread. It ends when this is dropped.
#[derive(Debug)]
pub struct Watcher {
    stop: Option<Sender<Release>>,
    thread: Option<JoinHandle<Outcome>>,
}

impl Watcher {
    /// Watches a program that was started and not waited for yet. `occupancy` is the file that its
    /// processes share, if there is one.
    ///
    /// # Errors
    /// If no thread can be created, or `/proc` shows another PID namespace.
    pub(super) fn start(
        program: i32,
        order: Vec<CpuId>,
        occupancy: Option<PathBuf>,
        reported: Reported,
    ) -> io::Result<Self> {
        let is_reported = move |pid: i32| match reported {
            Reported::Nothing => false,
            Reported::Program => pid == program,
            Reported::All => true,
        };
        Self::watching(OutsideProcesses::new(program, occupancy), Pinner::new(order), is_reported)
    }

    /// Watches a program that runs without the library. `orphans` tells which of its processes are
    /// recognised after they have lost their parent.
    ///
    /// # Errors
    /// If no thread can be created, or `/proc` shows another PID namespace.
    pub fn of_running(program: i32, order: Vec<CpuId>, orphans: Orphans) -> io::Result<Self> {
        let processes = OutsideProcesses::of_running(program, orphans);
        Self::watching(processes, Pinner::of_running(order), |_| true)
    }

    fn watching(
        processes: OutsideProcesses,
        pinner: Pinner,
        is_reported: impl Fn(i32) -> bool + Send + 'static,
    ) -> io::Result<Self> {
        // The ids would belong to other processes there.
        check_proc().map_err(io::Error::other)?;
        let (stop, stopped) = channel();
        let thread = thread::Builder::new()
            .name("watch-threads".to_owned())
            .spawn(move || watch(processes, pinner, &is_reported, &stopped))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Ends the watching, and lets the placed threads run on all CPUs of the order again. Returns its
    /// result.
    #[must_use]
    pub fn release(self) -> Outcome {
        if let Some(stop) = &self.stop {
            // If the program has ended, nobody receives it, and there are no threads.
            let _ = stop.send(Release);
        }
        self.finish()
    }

    /// Ends the watching. Returns its result.
    #[must_use]
    pub fn finish(mut self) -> Outcome {
        self.stop.take();
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

/// Asks to let the placed threads run on all CPUs.
#[derive(Debug)]
struct Release;

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // The thread does not panic, and nothing could be done if it did.
            let _ = thread.join();
        }
    }
}

fn watch(
    mut processes: OutsideProcesses,
    mut pinner: Pinner,
    is_reported: &dyn Fn(i32) -> bool,
    stopped: &Receiver<Release>,
) -> Outcome {
    let all = pinner.all().clone();
    let mut from_outside = Vec::new();
    let (mut pause, mut last_full, mut needed) = (SHORTEST, None::<Instant>, true);
    let mut rest = FIRST;
    while processes.runs() {
        match stopped.recv_timeout(rest) {
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
            Ok(Release) => {
                release(&mut processes, &mut pinner, &all);
                break;
            }
        }
        let start = Instant::now();
        let news = processes.has_new_tasks();
        let full = last_full.is_none_or(|last| last.elapsed() >= FULL);
        if news || full {
            last_full = Some(start);
            let placed = place_new_threads(&mut processes, &mut pinner, &all);
            needed = !placed.is_empty();
            let news = placed.into_iter().filter(|(process, _)| !is_reported(process.pid));
            news.for_each(|(process, threads)| count(&mut from_outside, process, threads));
        }
        pause = match (needed, news) {
            (false, _) => LONGEST,
            (true, true) => SHORTEST,
            (true, false) => (pause * 3 / 2).min(LONGEST),
        };
        rest = pause.max(start.elapsed() * REST);
    }
    let Pinner { placed, pins_itself, refused, .. } = pinner;
    Outcome { placed, pins_itself, refused, from_outside, ..Outcome::default() }
}

/// Lets all placed threads run on all CPUs, and those that they have created meanwhile.
fn release(processes: &mut OutsideProcesses, pinner: &mut Pinner, all: &CpuSet) {
    place_new_threads(processes, pinner, all);
    // An error is ignored: the thread may have ended.
    let free = |tid: i32| drop(affinity::set(tid, all.as_words()));
    for (tid, cpu) in pinner.release() {
        // It may have chosen other CPUs since.
        let now = affinity::get(tid).map(|words| CpuSet::from_words(&words));
        if now.is_ok_and(|now| now == [cpu].into_iter().collect()) {
            free(tid);
        }
    }
    processes.refresh();
    for ToPlace { pid, threads, .. } in processes.threads_to_place() {
        let has_inherited = |seen: &&Seen| pinner.has_inherited(pid, seen);
        threads.iter().filter(has_inherited).for_each(|seen| free(seen.tid));
    }
}

/// Counts threads that were placed in a process.
fn count(from_outside: &mut Vec<FromOutside>, process: ToPlace, threads: u32) {
    let ToPlace { program, obstacle, .. } = process;
    match from_outside
        .iter_mut()
        .find(|known| (&known.program, &known.obstacle) == (&program, &obstacle))
    {
        Some(known) => known.threads += threads,
        None if threads > 0 => from_outside.push(FromOutside { program, obstacle, threads }),
        None => {}
    }
}

/// Places new threads. Returns the processes that need placing from outside, each with the number
/// of threads that were pinned now.
fn place_new_threads(
    processes: &mut OutsideProcesses,
    pinner: &mut Pinner,
    all: &CpuSet,
) -> Vec<(ToPlace, u32)> {
    for process in processes.refresh() {
        pinner.end(process);
    }
    let mut looked_at = Vec::new();
    for to_place in processes.threads_to_place() {
        let (process, before) = (to_place.pid, pinner.placed);
        for order in pinner.decide(process, &to_place.threads, to_place.is_copy) {
            match order {
                Order::Pin(tid, cpu) => {
                    let one: CpuSet = [cpu].into_iter().collect();
                    match affinity::set(tid, one.as_words()) {
                        Ok(()) => {}
                        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                            pinner.lose(process, tid);
                        }
                        Err(_) => pinner.refuse(process, tid),
                    }
                }
                Order::Free(tid) => {
                    // If that is refused, the thread keeps its CPU, and the next look tries again.
                    let _ = affinity::set(tid, all.as_words());
                }
            }
        }
        looked_at.push((to_place, pinner.placed.saturating_sub(before)));
    }
    pinner.has_looked();
    looked_at
}
