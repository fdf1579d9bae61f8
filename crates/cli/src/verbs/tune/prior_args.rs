//! Arguments of what `tune` expects before its first run.

use std::path::PathBuf;

use anyhow::bail;
use clap::ValueEnum;

/// Options of the prior.
#[derive(clap::Args)]
pub struct PriorArgs {
    /// What chooses the first runs, besides the runs themselves; no claim rests on it: earlier
    /// searches (history), a run that is observed as by advise (advise), both, or neither. A run is
    /// observed on this host, in place of the warm-up. [default: all, without an observed run with
    /// --max-time and where there is no warm-up]
    #[arg(long, value_name = "SOURCE", help_heading = "Prior")]
    pub prior: Option<Source>,

    /// Expect what this result of `numapilot advise --json` says, instead of observing a run.
    #[arg(long, value_name = "FILE", help_heading = "Prior")]
    pub advice: Option<PathBuf>,

    /// Expect what these searches found, such as those of other machines: a file of --parquet, a
    /// directory of them, or the directory of --state of a search; may be repeated. Searches that are
    /// kept on this host count without it.
    #[arg(long, value_name = "PATH", help_heading = "Prior")]
    pub history: Vec<PathBuf>,
}

/// `--prior`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Source {
    /// Both.
    All,
    /// An observed run.
    Advise,
    /// Earlier searches.
    History,
    /// Nothing.
    None,
}

impl PriorArgs {
    /// Whether earlier searches count.
    pub fn has_history(&self) -> bool {
        matches!(self.prior, None | Some(Source::All | Source::History))
    }

    /// Whether advice counts.
    pub fn has_advice(&self) -> bool {
        matches!(self.prior, None | Some(Source::All | Source::Advise))
    }

    /// Refuses options that `--prior` rules out.
    ///
    /// # Errors
    /// The two options.
    pub fn check(&self) -> anyhow::Result<()> {
        let Some(source) = self.prior.and_then(|source| source.to_possible_value()) else {
            return Ok(());
        };
        let unused = if self.advice.is_some() && !self.has_advice() {
            "--advice"
        } else if !self.history.is_empty() && !self.has_history() {
            "--history"
        } else {
            return Ok(());
        };
        bail!("--prior {} rules {unused} out; leave out one of them", source.get_name());
    }

    /// The first option that is given and names a file.
    pub fn given(&self) -> Option<&'static str> {
        let history = (!self.history.is_empty()).then_some("--history");
        self.advice.is_some().then_some("--advice").or(history)
    }

    /// Whether a run is to be observed, even if it is one more.
    pub fn asks_for_a_run(&self) -> bool {
        self.advice.is_none() && matches!(self.prior, Some(Source::All | Source::Advise))
    }
}
