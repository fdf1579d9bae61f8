//! Memory of a target over time, with bounded overhead.
//!
//! Reading `numa_maps` walks the page tables of the target under a lock that its own `mmap` calls
//! wait for. So the time of each look is measured, and the next look is delayed until looking takes
//! at most one hundredth of the time.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::numa_maps::NodeBytes;

/// Looking takes at most one part in this number of the time.
const SHARE: u32 = 100;
/// Time between the first look, at the start, and the second. The intervals then double, so short
/// programs are observed and long ones are not disturbed.
const FIRST_WAIT: Duration = Duration::from_millis(10);
/// Maximum number of points. When it is reached, every other point is dropped.
const MAX_POINTS: usize = 1024;

/// Why there is no figure of a target that no look has found running.
const ENDED_UNSEEN: &str = "the target ended before its memory was read";
/// Why there is no figure of a target that runs.
pub const RUNS_UNSEEN: &str =
    "the target runs, but the kernel shows no memory of it: it may be about to start or to end";

/// Memory of the target at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryPoint {
    /// Time since the observation began.
    pub seconds: f64,
    /// Resident bytes of all processes, including huge pages of hugetlbfs.
    pub rss_bytes: u64,
    /// Bytes on each node.
    pub node_bytes: NodeBytes,
}

/// The results of the looks.
#[derive(Clone, Debug)]
pub struct Timeline {
    points: Vec<MemoryPoint>,
    peak: NodeBytes,
    last_rss_bytes: Option<u64>,
    /// Why there is no result.
    reason: Option<String>,
    began: Instant,
    due: Instant,
    wait: Duration,
    interval: Duration,
}

impl Timeline {
    /// Begins now, with at most one look per `interval`.
    #[must_use]
    pub fn new(interval: Duration) -> Self {
        let now = Instant::now();
        Self {
            points: Vec::new(),
            peak: NodeBytes::new(),
            last_rss_bytes: None,
            reason: None,
            began: now,
            due: now,
            wait: FIRST_WAIT.min(interval),
            interval,
        }
    }

    /// The time at which the next look is due.
    #[must_use]
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Notes the result of a look that ends now and took `cost` of CPU time.
    pub fn note(&mut self, cost: Duration, rss_bytes: u64, nodes: Result<NodeBytes, String>) {
        let now = Instant::now();
        self.last_rss_bytes = Some(rss_bytes).filter(|bytes| *bytes > 0).or(self.last_rss_bytes);
        match nodes {
            Ok(node_bytes) if node_bytes.is_empty() => {}
            Ok(node_bytes) => {
                for (&node, &bytes) in &node_bytes {
                    let peak = self.peak.entry(node).or_default();
                    *peak = (*peak).max(bytes);
                }
                let seconds = (now - self.began).as_secs_f64();
                self.points.push(MemoryPoint { seconds, rss_bytes, node_bytes });
                self.reason = None;
            }
            Err(reason) => self.reason = Some(reason),
        }
        if self.points.len() >= MAX_POINTS {
            let mut keep = false;
            self.points.retain(|_| {
                keep = !keep;
                keep
            });
            self.interval *= 2;
        }
        self.due = now + next_wait(self.wait, cost);
        self.wait = (self.wait * 2).min(self.interval);
    }

    /// The points, or why there are none.
    ///
    /// # Errors
    /// The reason.
    pub fn points(&self) -> Result<&[MemoryPoint], String> {
        if !self.points.is_empty() {
            return Ok(&self.points);
        }
        Err(self.reason.clone().unwrap_or_else(|| ENDED_UNSEEN.to_owned()))
    }

    /// Why nothing resident was seen.
    #[must_use]
    pub fn no_rss(&self) -> String {
        let runs = self.reason.as_deref() == Some(RUNS_UNSEEN);
        if runs { RUNS_UNSEEN } else { ENDED_UNSEEN }.to_owned()
    }

    /// Resident bytes when last seen.
    #[must_use]
    pub fn last_rss_bytes(&self) -> Option<u64> {
        self.last_rss_bytes
    }

    /// The maximum that was seen on each node.
    #[must_use]
    pub fn peak(&self) -> &NodeBytes {
        &self.peak
    }
}

/// The time to wait after a look that took `cost`: `wanted`, or as much longer as it takes for looking
/// to take at most one hundredth of the time.
#[must_use]
pub fn next_wait(wanted: Duration, cost: Duration) -> Duration {
    wanted.max(cost.saturating_mul(SHARE))
}

#[cfg(test)]
mod tests {
    use numapilot_topology::NodeId;
    use proptest::prelude::*;

    use super::*;

    fn on_node_0(bytes: u64) -> Result<NodeBytes, String> {
        Ok([(NodeId(0), bytes)].into_iter().collect())
    }

    #[test]
    fn points_are_bounded_and_the_peak_survives_thinning() {
        let mut timeline = Timeline::new(Duration::from_millis(100));
        for i in 0..5000u64 {
            timeline.note(Duration::ZERO, i, on_node_0(if i == 7 { 1 << 30 } else { i }));
        }
        let points = timeline.points().unwrap();
        assert!(points.len() < MAX_POINTS, "{}", points.len());
        assert!(points.is_sorted_by_key(|p| p.rss_bytes));
        assert_eq!(timeline.peak()[&NodeId(0)], 1 << 30);
    }

    #[test]
    fn nothing_seen_has_a_reason() {
        let mut timeline = Timeline::new(Duration::from_millis(100));
        assert!(timeline.points().unwrap_err().contains("before its memory"));
        timeline.note(Duration::ZERO, 0, Err("not permitted".to_owned()));
        assert_eq!(timeline.points().unwrap_err(), "not permitted");
        assert!(timeline.no_rss().contains("before its memory"));
        timeline.note(Duration::ZERO, 0, Err(RUNS_UNSEEN.to_owned()));
        assert_eq!(timeline.no_rss(), RUNS_UNSEEN);
        timeline.note(Duration::ZERO, 5, Err("no NUMA".to_owned()));
        assert_eq!(timeline.last_rss_bytes(), Some(5));
        timeline.note(Duration::ZERO, 0, on_node_0(1));
        assert_eq!(timeline.points().unwrap().len(), 1);
    }

    proptest! {
        #[test]
        fn looking_takes_at_most_one_percent(wanted in 0u64..10_000, cost in 0u64..1_000_000) {
            let (wanted, cost) = (Duration::from_micros(wanted), Duration::from_micros(cost));
            let wait = next_wait(wanted, cost);
            prop_assert!(wait >= wanted && cost <= wait / SHARE + Duration::from_nanos(1));
        }
    }
}
