//! The results for one number of clients.

use std::time::Duration;

use numapilot_engines::Watched;
use numapilot_engines::clients::Outcome;

/// The results for one number of clients.
pub struct Row {
    pub outcome: Outcome,
    pub watched: Watched,
    /// In a lab: the simulated time.
    pub simulated: Option<Duration>,
}
