//! Memory traffic of a target: what tells a growth that brought something from one that only
//! made more threads wait for memory.
//!
//! Sources: perf_event_open(2) with the processor's DRAM events; in a lab its PMU, which
//! counts the whole machine. Elsewhere there is none, and the reason is told.

use std::time::Instant;

use numapilot_observe::lab::{LabCounters, LabPmu};
use numapilot_observe::pmu::{Attach, Counters};
use numapilot_observe::{Metric, Tree};

use crate::meter::Pace;

/// What an access to DRAM moves.
const LINE_BYTES: f64 = 64.0;

/// Where traffic is counted, and what was counted last.
#[derive(Debug)]
pub struct Traffic {
    source: Source,
    pace: Pace,
}

#[derive(Debug)]
enum Source {
    Lab { pmu: LabPmu, last: LabCounters },
    Processor { counters: Counters, lines: f64, at: Instant },
    None(String),
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
        Self { source, pace: Pace::new() }
    }

    /// What counts it; `Err` is why nothing does.
    ///
    /// # Errors
    /// The reason, with its remedy where there is one.
    pub fn source(&self) -> Result<&'static str, &str> {
        match &self.source {
            Source::Lab { .. } => Ok("the lab's PMU, for the whole machine"),
            Source::Processor { .. } => Ok("the processor's PMU"),
            Source::None(reason) => Err(reason),
        }
    }

    /// Bytes per second since the last time that was known; of simulated time in a lab.
    pub fn read(&mut self) -> Option<f64> {
        let (lines, seconds) = self.pace.when_due(|| self.source.read())??;
        (seconds > 0.0).then(|| lines * LINE_BYTES / seconds)
    }
}

impl Source {
    /// Lines of memory, and the seconds in which they were moved.
    fn read(&mut self) -> Option<(f64, f64)> {
        match self {
            Self::Lab { pmu, last } => {
                let now = pmu.counters();
                let (local, remote) = now.counted_since(last).local_remote();
                let seconds = now.seconds_since(last);
                *last = now;
                Some(((local + remote) as f64, seconds))
            }
            Self::Processor { counters, lines, at } => {
                let (now, moment) = (dram_lines(counters).ok()?, Instant::now());
                let moved = ((now - *lines).max(0.0), (moment - *at).as_secs_f64());
                (*lines, *at) = (now, moment);
                Some(moved)
            }
            Self::None(_) => None,
        }
    }
}

fn processor(tree: &Tree) -> Source {
    let counters = Counters::dram(&Attach::Threads(tree.threads().collect()));
    match dram_lines(&counters) {
        Ok(lines) => Source::Processor { counters, lines, at: Instant::now() },
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
            Ok(_) => assert!(traffic.read().is_none_or(|bytes| bytes >= 0.0)),
            Err(reason) => {
                assert!(reason.len() > 20, "{reason}");
                assert_eq!(traffic.read(), None);
            }
        }
    }
}
