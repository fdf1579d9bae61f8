//! `--jobs`: how many emulated machines run at once.

use std::num::NonZeroUsize;

use numapilot_cli_kit::guests::allowed_here;

/// The option of verbs that run trials or estimate their time.
#[derive(clap::Args)]
pub struct Jobs {
    /// Number of trials that run at once on emulated machines; trials on this host always run alone
    /// [default: what the CPUs and the free memory allow: 2 on 2 CPUs with 8 GiB].
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

impl Jobs {
    pub fn number(&self) -> NonZeroUsize {
        self.jobs.unwrap_or_else(allowed_here)
    }
}
