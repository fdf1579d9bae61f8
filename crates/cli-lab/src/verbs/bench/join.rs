//! `bench w3` and `bench w4`: two joins over the same tables.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use numapilot_cli_kit::settle::Measured;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_workloads::join::Options;
use numapilot_workloads::join::answer::Answer;
use numapilot_workloads::join::data::{JoinSet, Keys};
use numapilot_workloads::size::{Grouped, parse_count};
use numapilot_workloads::w3::Build;
use numapilot_workloads::w4::Index;
use numapilot_workloads::{Outcome, WorkloadError, w3, w4};

use super::args::{Pattern, Reading};
use super::dump::dump;
use super::text::{self, Page};

/// Named sizes.
#[derive(Clone, Copy, ValueEnum)]
enum Scale {
    /// 2 Mi and 32 Mi tuples: takes seconds on two cores and, without --materialize, less than 1
    /// GiB.
    Laptop,
    /// The paper's size: 16 Mi and 256 Mi tuples.
    Paper,
}

impl Scale {
    const fn small(self) -> u64 {
        match self {
            Self::Laptop => 2 << 20,
            Self::Paper => 16 << 20,
        }
    }

    const fn large(self) -> u64 {
        16 * self.small()
    }
}

/// `--data`
#[derive(Clone, Copy, ValueEnum)]
enum Data {
    /// Every key equally often, in blocks that are shuffled independently.
    Shuffle,
    /// A Zipf distribution with exponent 1.05.
    Zipf,
}

/// The tables and how to join them.
#[derive(clap::Args)]
struct Common {
    /// How the large table refers to the small one.
    #[arg(long, value_enum, value_name = "SET", default_value = "shuffle")]
    data: Data,

    /// Sizes for the options below that are not given.
    #[arg(long, value_enum, default_value_t = Scale::Laptop)]
    scale: Scale,

    /// Number of tuples (16 bytes) of the small table, as in 10M or 16Mi.
    #[arg(long, value_name = "N", value_parser = parse_count)]
    small: Option<u64>,

    /// Number of tuples of the large table.
    #[arg(long, value_name = "N", value_parser = parse_count)]
    large: Option<u64>,

    #[command(flatten)]
    reading: Reading,

    /// Write the result rows into memory instead of counting them.
    #[arg(long)]
    materialize: bool,

    /// How the memory for result rows is allocated.
    #[arg(long, value_enum, value_name = "PATTERN", default_value = "raw")]
    allocation_pattern: Pattern,

    /// Compute the answer again in one thread, with an array instead of the table, and compare.
    #[arg(long)]
    check: bool,

    /// Write the tuples of the small table and then of the large one to FILE (key and payload of 8
    /// bytes each, little endian) and stop.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["check", "json"])]
    dump: Option<PathBuf>,
}

/// Arguments of `bench w3`.
#[derive(clap::Args)]
pub struct W3 {
    #[command(flatten)]
    common: Common,

    /// Data structure for the small table.
    #[arg(long, value_enum, default_value_t = TableBy::Auto)]
    table: TableBy,
}

/// `--table`
#[derive(Clone, Copy, ValueEnum)]
enum TableBy {
    /// As in the paper's engine: an array up to 1 Mi keys, which are dense, else a hash table.
    Auto,
    /// A hash table.
    Hash,
    /// An array that is indexed by the key.
    Array,
}

/// `--index`
#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "lower")]
enum IndexBy {
    /// Adaptive radix tree.
    Art,
    /// Trie of B+ trees.
    Masstree,
    /// Skip list.
    SkipList,
    /// B+ tree.
    BTree,
}

/// Arguments of `bench w4`.
#[derive(clap::Args)]
pub struct W4 {
    #[command(flatten)]
    common: Common,

    /// Index over the small table.
    #[arg(long, value_enum, default_value = "art")]
    index: IndexBy,
}

impl W3 {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let build = match self.table {
            TableBy::Auto => Build::for_dense_keys(self.common.set().small),
            TableBy::Hash => Build::Hash,
            TableBy::Array => Build::Array,
        };
        self.common.run(terminal, &build.to_string(), |options| w3::run(options, build))
    }
}

impl W4 {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let (name, index) = match self.index {
            IndexBy::Art => ("ART", Index::Art),
            IndexBy::Masstree => ("Masstree", Index::Masstree),
            IndexBy::SkipList => ("skip list", Index::SkipList),
            IndexBy::BTree => ("B+ tree", Index::BTree),
        };
        let method = format!("index nested-loop join, {name}");
        self.common.run(terminal, &method, |options| w4::run(options, index))
    }
}

impl Common {
    fn set(&self) -> JoinSet {
        JoinSet {
            small: self.small.unwrap_or(self.scale.small()),
            large: self.large.unwrap_or(self.scale.large()),
            keys: match self.data {
                Data::Shuffle => Keys::Shuffle,
                Data::Zipf => Keys::Zipf,
            },
            seed: self.reading.shared.seed,
        }
    }

    fn run(
        self,
        terminal: &Terminal,
        method: &str,
        workload: impl FnOnce(&Options) -> Result<Outcome<Answer>, WorkloadError>,
    ) -> anyhow::Result<ExitCode> {
        let set = self.set();
        if let Some(path) = self.dump {
            set.validate()?;
            return dump(terminal, &[&set.small_table(), &set.large_table()], &path);
        }
        let options = Options {
            set,
            threads: self.reading.shared.threads(),
            load: self.reading.load.into(),
            materialize: self.materialize,
            allocation_pattern: self.allocation_pattern.into(),
            check: self.check,
        };
        let outcome = workload(&options)?;
        if self.reading.shared.json {
            terminal.json(&Measured::new(terminal, &outcome))?;
            return Ok(ExitCode::SUCCESS);
        }
        let JoinSet { small, large, .. } = set;
        let title = format!(
            "{}: {method}, {} with {} tuples",
            outcome.figures.workload,
            Grouped(small),
            Grouped(large)
        );
        let items = |phase: &str| match phase {
            "load" => small + large,
            "build" => small,
            _ => large,
        };
        let Answer { rows, checksum, .. } = outcome.answer;
        let page = Page { title: &title, items: &items, size: format!("rows {rows}"), checksum };
        text::outcome(terminal, &page, &outcome)?;
        Ok(ExitCode::SUCCESS)
    }
}
