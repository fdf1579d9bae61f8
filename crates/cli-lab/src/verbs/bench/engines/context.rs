//! What was observed of the engine besides the queries.

use numapilot_engines::{Mallocs, Watched};

/// Memory and CPU time over the run, and the mallocs in use.
pub struct RunContext {
    pub watched: Watched,
    pub mallocs: Result<Mallocs, String>,
}
