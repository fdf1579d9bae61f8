//! The period in which a verb samples or decides, as an option in perf's form.

use std::time::Duration;

use numapilot_cli_kit::units;

/// An addition to the verb's own option, whose ID is `interval`.
#[derive(clap::Args)]
pub struct AsPerf {
    /// The same in milliseconds, as perf has it.
    #[arg(short = 'I', value_name = "MS", conflicts_with = "interval",
          value_parser = units::milliseconds)]
    interval_ms: Option<Duration>,
}

impl AsPerf {
    /// The period given with this option, or `own`.
    pub fn or(&self, own: Duration) -> Duration {
        self.interval_ms.unwrap_or(own)
    }
}
