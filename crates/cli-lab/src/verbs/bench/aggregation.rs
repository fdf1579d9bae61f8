//! `bench w1` and `bench w2`: two aggregations over the same input.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use numapilot_cli_kit::settle::Measured;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_workloads::aggregation::Options;
use numapilot_workloads::data::{DataSet, Distribution};
use numapilot_workloads::size::{Grouped, parse_count};
use numapilot_workloads::{Outcome, WorkloadError, w1, w2};

use super::args::{Pattern, Reading};
use super::dump::dump;
use super::text::{self, Page};

/// Named sizes.
#[derive(Clone, Copy, ValueEnum)]
enum Scale {
    /// 10 M records and 1 M groups: takes seconds on two cores and less than 1 GiB.
    Laptop,
    /// The paper's size: 100 M records and 1 M groups.
    Paper,
}

impl Scale {
    const fn records(self) -> u64 {
        match self {
            Self::Laptop => 10_000_000,
            Self::Paper => 100_000_000,
        }
    }

    const fn groups(self) -> u64 {
        1_000_000
    }
}

/// `--insertion`
#[derive(Clone, Copy, ValueEnum)]
enum Insertion {
    /// In batches of runs of up to six values of a key, which it gathers before.
    Gathered,
    /// One by one.
    Single,
}

impl From<Insertion> for w1::Insertion {
    fn from(insertion: Insertion) -> Self {
        match insertion {
            Insertion::Gathered => Self::Gathered,
            Insertion::Single => Self::Single,
        }
    }
}

/// The input and how to run over it.
#[derive(clap::Args)]
struct Common {
    /// How the keys are distributed.
    #[arg(long, value_name = "SET", default_value = Distribution::HeavyHitter.name(),
          value_parser = PossibleValuesParser::new(Distribution::ALL.map(Distribution::name))
              .try_map(|name| name.parse::<Distribution>()))]
    data: Distribution,

    /// Sizes for the options below that are not given.
    #[arg(long, value_enum, default_value_t = Scale::Laptop)]
    scale: Scale,

    /// Number of records of 16 bytes, as in 10M or 16Mi.
    #[arg(long, value_name = "N", value_parser = parse_count)]
    records: Option<u64>,

    /// Number of distinct keys.
    #[arg(long, value_name = "N", value_parser = parse_count)]
    groups: Option<u64>,

    #[command(flatten)]
    reading: Reading,

    /// Number of groups that the hash table is created for; it grows if there are more [default:
    /// --groups].
    #[arg(long, value_name = "N", value_parser = parse_count)]
    estimate: Option<u64>,

    /// Compute the answer again in one thread by sorting, and compare.
    #[arg(long)]
    check: bool,

    /// Write the records to FILE (key and value of 8 bytes each, little endian) and stop.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["check", "json"])]
    dump: Option<PathBuf>,
}

/// Arguments of `bench w1`.
#[derive(clap::Args)]
pub struct W1 {
    #[command(flatten)]
    common: Common,

    /// How the buffers of the groups are allocated.
    #[arg(long, value_enum, value_name = "PATTERN", default_value = "raw")]
    allocation_pattern: Pattern,

    /// How a thread takes records to the table that all threads share.
    #[arg(long, value_enum, value_name = "HOW", default_value = "gathered")]
    insertion: Insertion,
}

/// Arguments of `bench w2`.
#[derive(clap::Args)]
pub struct W2 {
    #[command(flatten)]
    common: Common,
}

impl W1 {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let (pattern, insertion) = (self.allocation_pattern.into(), self.insertion.into());
        let workload = |options: &Options| w1::run(options, pattern, insertion);
        self.common.run(terminal, "MEDIAN per group", workload)
    }
}

impl W2 {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        self.common.run(terminal, "COUNT per group", w2::run)
    }
}

impl Common {
    fn run(
        self,
        terminal: &Terminal,
        function: &str,
        workload: impl FnOnce(&Options) -> Result<Outcome, WorkloadError>,
    ) -> anyhow::Result<ExitCode> {
        let set = DataSet {
            distribution: self.data,
            records: self.records.unwrap_or(self.scale.records()),
            groups: self.groups.unwrap_or(self.scale.groups()),
            seed: self.reading.shared.seed,
        };
        if let Some(path) = self.dump {
            set.validate()?;
            return dump(terminal, &[&set], &path);
        }
        let options = Options {
            set,
            threads: self.reading.shared.threads(),
            load: self.reading.load.into(),
            estimate: self.estimate.unwrap_or(set.groups),
            check: self.check,
        };
        let outcome = workload(&options)?;
        if self.reading.shared.json {
            terminal.json(&Measured::new(terminal, &outcome))?;
            return Ok(ExitCode::SUCCESS);
        }
        let title = format!(
            "{}: {function}, {}, {} records, {} groups",
            outcome.figures.workload,
            set.distribution,
            Grouped(set.records),
            Grouped(set.groups),
        );
        let page = Page {
            title: &title,
            items: &|_| set.records,
            size: format!("groups {}", outcome.answer.groups),
            checksum: outcome.answer.checksum,
        };
        text::outcome(terminal, &page, &outcome)?;
        Ok(ExitCode::SUCCESS)
    }
}
