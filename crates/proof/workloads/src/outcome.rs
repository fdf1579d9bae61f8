//! The result of a workload run; scripts rely on its JSON form.

use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::answer::Answer;
use crate::team::{LOAD, Phase};

/// The options of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Name on the command line.
    pub workload: &'static str,
    /// Number of threads.
    pub threads: usize,
    /// All other options.
    pub parameters: serde_json::Value,
}

/// Result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome<A = Answer> {
    /// The options of the run.
    #[serde(flatten)]
    pub figures: Figures,
    /// Wall time of all phases except the load.
    pub seconds: f64,
    /// CPU time of these phases, all threads together.
    pub cpu_seconds: f64,
    /// Input records per second of `seconds`.
    pub items_per_second: f64,
    /// The answer.
    #[serde(flatten)]
    pub answer: A,
    /// Whether an independent computation gave the same answer (false: not requested).
    pub checked: bool,
    /// High-water mark of this process's resident memory, before any check.
    pub peak_rss_bytes: u64,
    /// Wall time per phase, in seconds.
    #[serde(serialize_with = "by_name")]
    pub phases: Vec<Phase>,
}

impl<A> Outcome<A> {
    /// Makes the outcome from the phases.
    #[must_use]
    pub fn new(
        figures: Figures,
        phases: Vec<Phase>,
        items: u64,
        answer: A,
        peak_rss_bytes: u64,
        checked: bool,
    ) -> Self {
        let work = || phases.iter().filter(|phase| phase.name != LOAD);
        let seconds = work().map(|phase| phase.duration).sum::<Duration>().as_secs_f64();
        let cpu_seconds = work().map(|phase| phase.cpu).sum::<Duration>().as_secs_f64();
        Self {
            figures,
            seconds,
            cpu_seconds,
            items_per_second: items as f64 / seconds,
            answer,
            checked,
            peak_rss_bytes,
            phases,
        }
    }
}

fn by_name<S: Serializer>(phases: &[Phase], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(phases.len()))?;
    for phase in phases {
        map.serialize_entry(phase.name, &phase.duration.as_secs_f64())?;
    }
    map.end()
}
