//! How often a verb looks or decides, said as perf says it.

use std::time::Duration;

use numapilot_cli_kit::units;

/// Beside the verb's own option, whose id is `interval`.
#[derive(clap::Args)]
pub struct AsPerf {
    /// The same in milliseconds, as perf has it.
    #[arg(short = 'I', value_name = "MS", conflicts_with = "interval",
          value_parser = units::milliseconds)]
    interval_ms: Option<Duration>,
}

impl AsPerf {
    /// What was said here, or with the verb's own option.
    pub fn or(&self, own: Duration) -> Duration {
        self.interval_ms.unwrap_or(own)
    }
}
