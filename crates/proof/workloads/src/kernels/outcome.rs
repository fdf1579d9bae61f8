//! The result of a kernel run; scripts rely on its JSON form.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Place;
use super::clock::Time;
use super::stage::Round;
use crate::answer::hexadecimal;
use crate::outcome::Figures;

/// Pages of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NodePages {
    /// Kernel id of the node.
    pub node: u32,
    /// Base pages of the kernel's memory on the node at the end.
    pub pages: u64,
}

/// The rate of one round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// When it ended: seconds since the first round began.
    pub ended_seconds: f64,
    /// Items of work per second in this round.
    pub items_per_second: f64,
}

/// The rates of a run's rounds, which have `items` items each.
pub(super) fn over_time(items: f64, rounds: &[Round]) -> Vec<Rate> {
    let rate = |round: &Round| Rate {
        ended_seconds: round.ended.as_secs_f64(),
        items_per_second: items / round.worked.as_secs_f64(),
    };
    rounds.iter().map(rate).collect()
}

/// The rate after the run has settled: the median of the rounds in its last quarter.
pub(super) fn settled(items: f64, rounds: &[Round]) -> f64 {
    let last = rounds.last().map_or(0.0, |round| round.ended.as_secs_f64());
    let late = over_time(items, rounds).into_iter().filter(|rate| rate.ended_seconds > 0.75 * last);
    let mut late: Vec<f64> = late.map(|rate| rate.items_per_second).collect();
    late.sort_by(f64::total_cmp);
    late.get(late.len() / 2).copied().unwrap_or(0.0)
}

/// Result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The options of the run.
    #[serde(flatten)]
    pub figures: Figures,
    /// The placement that `best` stood for, or the requested one.
    pub mitigation: Place,
    /// The kind of time of `seconds`.
    pub time: Time,
    /// How long the work took.
    pub seconds: f64,
    /// Items of work per second.
    pub items_per_second: f64,
    /// The same for the median round of the last quarter of the time, after the run has settled.
    pub settled_items_per_second: f64,
    /// Every round, if the work was repeated for a time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<Rate>,
    /// The checksum of the threads, which an independent computation confirmed.
    #[serde(serialize_with = "hexadecimal")]
    pub checksum: u64,
    /// High-water mark of this process's resident memory.
    pub peak_rss_bytes: u64,
    /// Number of nodes on which threads run.
    pub nodes: usize,
    /// Where the pages were at the end.
    pub pages: Vec<NodePages>,
    /// The time that the machine description predicts.
    pub predicted_seconds: Option<f64>,
    /// What limits the predicted time.
    pub predicted_bound: Option<String>,
    /// Why a figure is missing.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unsupported: BTreeMap<&'static str, String>,
    /// Notes for the reader of the figures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Outcome {
    /// Measured over predicted time.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        self.predicted_seconds.filter(|p| *p > 0.0).map(|predicted| self.seconds / predicted)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_has_settled_is_what_came_last() {
        let round = |ended: u64, worked: u64| Round {
            ended: Duration::from_secs(ended),
            worked: Duration::from_secs(worked),
        };
        assert_eq!(settled(12.0, &[round(4, 4)]), 3.0);
        let rounds = [round(6, 6), round(12, 6), round(16, 4), round(18, 2), round(21, 3)];
        assert_eq!(settled(12.0, &rounds), 4.0, "4, 6 and 3 in the last quarter");
        assert_eq!(over_time(12.0, &rounds)[1].items_per_second, 2.0);
    }
}
