//! Memory traffic of a target. It distinguishes a useful growth from one that only made more
//! threads wait for memory.
//!
//! Sources: perf_event_open(2) with the processor's DRAM events; in a lab its PMU, which counts the
//! whole machine. Without either there is no figure, and the reason is reported.
//!
//! In a lab many CPUs share the host's few, and a CPU that waits for the host looks busy. The lab's
//! PMU counts CPUs that really computed, in simulated time, which excludes waiting for the host.

use std::time::Instant;

use numapilot_observe::lab::{LabCounters, LabPmu};
use numapilot_observe::pmu::{Attach, Counters};
use numapilot_observe::{Metric, Tree};

use crate::pace::{OFTEN, Pace};

/// Bytes that one access to DRAM moves.
const LINE_BYTES: f64 = 64.0;

/// Counts traffic; keeps the last reading.
#[derive(Debug)]
pub struct Traffic {
    source: Source,
    pace: Pace,
}

#[derive(Debug)]
enum Source {
    Lab { pmu: LabPmu, last: LabCounters },
    Processor { counters: Counters, last: (f64, Instant) },
    None(String),
}

/// Figures for the time since the last reading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counted {
    /// Memory traffic; in a lab per second of simulated time.
    pub bytes_per_second: Option<f64>,
    /// Cores that computed in simulated time; only in a lab.
    pub computing: Option<f64>,
}

/// Lines of memory moved, the seconds that took, and a lab's CPU time in them.
struct Moved {
    lines: f64,
    seconds: f64,
    cpu: Option<f64>,
}

impl Traffic {
    /// Begins to count.
    #[must_use]
    pub fn of(tree: &Tree) -> Self {
        let source = match LabPmu::find() {
            Ok(Some(pmu)) => Source::Lab { last: pmu.counters(), pmu },
            Ok(None) => processor(tree),
            Err(error) => Source::None(error.to_string()),
        };
        Self { source, pace: Pace::of(OFTEN) }
    }

    /// What counts the traffic; `Err` explains why nothing does.
    ///
    /// # Errors
    /// The reason, with its remedy if there is one.
    pub fn source(&self) -> Result<&'static str, &str> {
        match &self.source {
            Source::Lab { .. } => Ok("the lab's PMU, for the whole machine"),
            Source::Processor { .. } => Ok("the processor's PMU"),
            Source::None(reason) => Err(reason),
        }
    }

    /// The figures since the last successful reading.
    pub fn read(&mut self) -> Counted {
        let moved = match &mut self.source {
            // The lab's PMU is mapped memory, so reading it is cheap.
            Source::Lab { pmu, last } => {
                let now = pmu.counters();
                let (counted, seconds) = (now.counted_since(last), now.seconds_since(last));
                *last = now;
                let (local, remote) = counted.local_remote();
                Some(Moved {
                    lines: (local + remote) as f64,
                    seconds,
                    cpu: Some(counted.cpu_seconds()),
                })
            }
            Source::Processor { counters, last } => self
                .pace
                .when_due(|| {
                    let now = (dram_lines(counters).ok()?, Instant::now());
                    let before = std::mem::replace(last, now);
                    let seconds = (now.1 - before.1).as_secs_f64();
                    Some(Moved { lines: (now.0 - before.0).max(0.0), seconds, cpu: None })
                })
                .flatten(),
            Source::None(_) => None,
        };
        moved.filter(|moved| moved.seconds > 0.0).map_or_else(Counted::default, |moved| Counted {
            bytes_per_second: Some(moved.lines * LINE_BYTES / moved.seconds),
            computing: moved.cpu.map(|cpu| cpu / moved.seconds),
        })
    }
}

fn processor(tree: &Tree) -> Source {
    let counters = Counters::dram(&Attach::Threads(tree.threads().collect()));
    match dram_lines(&counters) {
        Ok(lines) => Source::Processor { counters, last: (lines, Instant::now()) },
        Err(reason) => Source::None(reason),
    }
}

fn dram_lines(counters: &Counters) -> Result<f64, String> {
    let mut figures = counters.read();
    let mut figure = |metric| figures.remove(&metric).unwrap_or_else(|| Err("not counted".into()));
    Ok(figure(Metric::LocalAccesses)? + figure(Metric::RemoteAccesses)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_traffic_or_a_reason() {
        let tree = Tree::of(&[i32::try_from(std::process::id()).unwrap()]).unwrap();
        let mut traffic = Traffic::of(&tree);
        std::thread::sleep(std::time::Duration::from_millis(20));
        match traffic.source().map_err(str::to_owned) {
            Ok(_) => {
                let bytes = traffic.read().bytes_per_second;
                assert!(bytes.is_none_or(|bytes| bytes >= 0.0));
            }
            Err(reason) => {
                assert!(reason.len() > 20, "{reason}");
                assert_eq!(traffic.read(), Counted::default());
            }
        }
    }
}
