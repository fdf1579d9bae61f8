//! The memory of an engine over time, and the cost of watching and driving it.
//!
//! Reading `smaps_rollup` walks the page tables of each process. The next reading is therefore
//! postponed until reading takes at most one part in [`SHARE`] of the engine's own CPU time.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use numapilot_observe::{Footprint, Tree, Used};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::EngineError;

/// Reading takes at most one part in this many of the engine's CPU time.
const SHARE: f64 = 200.0;
/// The shortest time between two readings.
const INTERVAL: Duration = Duration::from_millis(100);
/// The longest time, unless there are too many points: the memory of an idle engine matters, too.
const LONGEST: Duration = Duration::from_secs(2);
/// Most points kept. When there are this many, every other one is dropped.
const MAX_POINTS: usize = 1024;

/// Memory at one moment.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MemoryPoint {
    /// Time since the beginning.
    pub seconds: f64,
    /// Sum over all processes of the engine.
    #[serde(flatten)]
    pub footprint: Footprint,
}

/// The observations.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Watched {
    /// From the first reading to the last.
    pub points: Vec<MemoryPoint>,
    /// Why there are none.
    #[serde(skip)]
    pub unsupported: Option<String>,
    /// CPU time of the engine.
    pub engine_cpu_seconds: f64,
    /// Page faults of the engine that needed no I/O.
    pub engine_minor_faults: u64,
    /// CPU time of this process, for driving and watching.
    pub driver_cpu_seconds: f64,
}

impl Watched {
    /// Appends later observations.
    pub fn append(&mut self, later: &Self) {
        let end = self.points.last().map_or(0.0, |point| point.seconds);
        let moved = |point: &MemoryPoint| MemoryPoint { seconds: end + point.seconds, ..*point };
        self.points.extend(later.points.iter().map(moved));
        self.unsupported = self.unsupported.take().or_else(|| later.unsupported.clone());
        self.engine_cpu_seconds += later.engine_cpu_seconds;
        self.engine_minor_faults += later.engine_minor_faults;
        self.driver_cpu_seconds += later.driver_cpu_seconds;
    }

    /// The largest observed sum of the processes' resident bytes.
    #[must_use]
    pub fn peak_rss_bytes(&self) -> Option<u64> {
        self.points.iter().map(|point| point.footprint.rss_bytes).max()
    }

    /// The largest memory really held: shared pages count once, and lazily freed pages do not
    /// count.
    #[must_use]
    pub fn peak_held_bytes(&self) -> Option<u64> {
        self.points.iter().map(|point| point.footprint.held_bytes()).max()
    }

    /// The mean over time of the memory really held.
    #[must_use]
    pub fn mean_held_bytes(&self) -> Option<u64> {
        let spans = self.points.windows(2).map(|pair| {
            let seconds = pair[1].seconds - pair[0].seconds;
            (seconds, seconds * pair[0].footprint.held_bytes() as f64)
        });
        let (seconds, sum) = spans.fold((0.0, 0.0), |sum, span| (sum.0 + span.0, sum.1 + span.1));
        (seconds > 0.0).then(|| (sum / seconds) as u64).or_else(|| self.peak_held_bytes())
    }

    /// CPU time for driving and watching, as a share of the engine's; `None` before the engine has
    /// used any.
    #[must_use]
    pub fn driver_share(&self) -> Option<f64> {
        let engine = self.engine_cpu_seconds;
        (engine > 0.0).then(|| self.driver_cpu_seconds / engine)
    }
}

/// Watches an engine until it is finished.
#[derive(Debug)]
pub struct Watch {
    thread: JoinHandle<Watched>,
    end: Sender<()>,
    driver: Duration,
}

impl Watch {
    /// Starts to watch a process and its descendants.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn begin(pid: i32) -> Result<Self, EngineError> {
        let (end, ends) = mpsc::channel();
        let driver = cpu_time(ClockId::ProcessCPUTime);
        let watch = move || {
            let mut watcher = Watcher::new(pid);
            let mut wait = Duration::ZERO;
            loop {
                match ends.recv_timeout(wait) {
                    Err(RecvTimeoutError::Timeout) => wait = watcher.look(),
                    _ => return watcher.finish(),
                }
            }
        };
        let thread = thread::Builder::new()
            .name("memory".to_owned())
            .spawn(watch)
            .map_err(EngineError::Thread)?;
        Ok(Self { thread, end, driver })
    }

    /// The observations so far.
    #[must_use]
    pub fn finish(self) -> Watched {
        drop(self.end);
        let mut watched = self.thread.join().unwrap_or_default();
        let driver = cpu_time(ClockId::ProcessCPUTime).saturating_sub(self.driver);
        watched.driver_cpu_seconds = driver.as_secs_f64();
        watched
    }
}

struct Watcher {
    tree: Result<Tree, String>,
    began: Instant,
    before: Used,
    interval: Duration,
    watched: Watched,
}

impl Watcher {
    fn new(pid: i32) -> Self {
        let tree = Tree::of(&[pid]).map_err(|error| error.to_string());
        let before = tree.as_ref().map(Tree::used).unwrap_or_default();
        let watched = Watched::default();
        Self { tree, began: Instant::now(), before, interval: INTERVAL, watched }
    }

    /// Reads once; returns the time until the next reading.
    fn look(&mut self) -> Duration {
        let before = cpu_time(ClockId::ThreadCPUTime);
        let footprint = self.tree.as_mut().map_err(|cause| cause.clone()).and_then(|tree| {
            tree.refresh();
            tree.footprint()
        });
        match footprint {
            // No resident memory: the engine has ended.
            Ok(footprint) if footprint.rss_bytes == 0 => {}
            Ok(footprint) => {
                let seconds = self.began.elapsed().as_secs_f64();
                self.watched.points.push(MemoryPoint { seconds, footprint });
            }
            Err(cause) => self.watched.unsupported = Some(cause),
        }
        if self.watched.points.len() >= MAX_POINTS {
            let mut at = 0;
            self.watched.points.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.interval *= 2;
        }
        let cost = cpu_time(ClockId::ThreadCPUTime).saturating_sub(before);
        let busy = self.engine_cpu().as_secs_f64() / self.began.elapsed().as_secs_f64();
        pause(cost, busy).max(self.interval)
    }

    /// CPU time of the engine since the beginning.
    fn engine_cpu(&self) -> Duration {
        let cpu = |used: Used| used.user() + used.system();
        let used = self.tree.as_ref().map(Tree::used).unwrap_or_default();
        cpu(used).saturating_sub(cpu(self.before))
    }

    fn finish(mut self) -> Watched {
        self.look();
        self.watched.engine_cpu_seconds = self.engine_cpu().as_secs_f64();
        let faults = self.tree.as_ref().map_or(0, |tree| tree.used().minor_faults);
        self.watched.engine_minor_faults = faults.saturating_sub(self.before.minor_faults);
        self.watched
    }
}

/// The pause after a reading that took `cost` of CPU time, for an engine that keeps `busy` CPUs
/// busy.
fn pause(cost: Duration, busy: f64) -> Duration {
    let seconds = SHARE * cost.as_secs_f64() / busy;
    Duration::try_from_secs_f64(seconds).map_or(LONGEST, |pause| pause.clamp(INTERVAL, LONGEST))
}

fn cpu_time(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(seconds: f64, bytes: u64) -> MemoryPoint {
        let footprint =
            Footprint { rss_bytes: 2 * bytes, pss_bytes: bytes, ..Footprint::default() };
        MemoryPoint { seconds, footprint }
    }

    #[test]
    fn the_mean_is_over_time() {
        let points = vec![point(0.0, 100), point(1.0, 200), point(4.0, 0)];
        let watched = Watched { points, ..Watched::default() };
        assert_eq!(watched.mean_held_bytes(), Some((100 + 3 * 200) / 4));
        assert_eq!(watched.peak_held_bytes(), Some(200));
        assert_eq!(watched.peak_rss_bytes(), Some(400));
        let mut twice = watched.clone();
        twice.append(&watched);
        assert!((twice.points[4].seconds - 5.0).abs() < 1e-9);
        assert_eq!(Watched::default().mean_held_bytes(), None);
        assert_eq!(Watched::default().driver_share(), None);
    }

    #[test]
    fn a_busy_engine_is_looked_at_more_often() {
        let cost = Duration::from_millis(2);
        assert_eq!(pause(cost, 2.0), Duration::from_millis(200));
        assert_eq!(pause(cost, 0.1), LONGEST);
        assert_eq!(pause(cost, 16.0), INTERVAL);
        assert_eq!((pause(cost, 0.0), pause(Duration::ZERO, 0.0)), (LONGEST, LONGEST));
    }

    #[test]
    fn this_process_is_seen() {
        let watch = Watch::begin(i32::try_from(std::process::id()).unwrap()).unwrap();
        let watched = watch.finish();
        match &watched.unsupported {
            None => assert!(watched.peak_rss_bytes().unwrap() > 1 << 20, "{watched:?}"),
            Some(reason) => println!("skipped: {reason}"),
        }
    }
}
