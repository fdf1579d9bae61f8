//! What was measured with a number of clients.

use std::time::Duration;

use numapilot_engines::Watched;
use numapilot_engines::clients::Outcome;

/// One number of clients.
pub struct Row {
    pub outcome: Outcome,
    pub watched: Watched,
    /// In a lab: what it took of the emulated machine's time.
    pub simulated: Option<Duration>,
}
