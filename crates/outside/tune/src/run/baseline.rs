//! What the runs of the default say about the next ones.

use std::time::Duration;

use crate::decide::model::USUAL_NOISE;
use crate::evidence::{Phase, Trial};
use crate::shape::DEFAULT;
use crate::statistics::robust_sigma;

/// Standard deviation of the default's times, as a share; the usual one if it was not measured.
pub(super) fn noise(trials: &[Trial]) -> f64 {
    let of_noise = trials.iter().filter(|t| t.order.phase == Phase::Noise && t.failure().is_none());
    let costs: Vec<f64> = of_noise.map(|t| t.seconds.ln()).collect();
    if costs.len() < 3 { USUAL_NOISE } else { robust_sigma(&costs) }
}

/// Ten times the default's slowest run, and at least ten seconds: a plan that takes longer is not
/// better. `None` before the default has run.
pub(super) fn default_timeout(trials: &[Trial]) -> Option<Duration> {
    let slowest = trials
        .iter()
        .filter(|t| t.order.candidate == DEFAULT)
        .map(|t| t.seconds)
        .fold(None, |most: Option<f64>, s| Some(most.map_or(s, |m| m.max(s))))?;
    Duration::try_from_secs_f64((10.0 * slowest).max(10.0)).ok()
}
