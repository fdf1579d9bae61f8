//! Arguments of `bench alloc`, `bench alloc suite` and `bench alloc compare`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use numapilot_cli_kit::units;
use numapilot_workloads::size::parse_count;
use regex::Regex;

/// `bench alloc` without a subcommand.
#[derive(clap::Args)]
pub struct List {
    #[command(flatten)]
    pub tests: Tests,
    #[command(flatten)]
    pub allocators: Allocators,
}

/// `bench alloc suite`
#[derive(clap::Args)]
#[command(after_help = "\
Examples:\n  numapilot bench alloc suite\n  \
numapilot bench alloc suite --allocators glibc,jemalloc,mine=./libmine.so --filter larson\n  \
numapilot bench alloc suite --programs ~/mimalloc-bench --peers ~/peers --svg suite.svg\n  \
numapilot bench alloc suite --installed --reference glibc")]
pub struct Suite {
    #[command(flatten)]
    pub tests: Tests,
    #[command(flatten)]
    pub allocators: Allocators,
    #[command(flatten)]
    pub rounds: Rounds,
}

/// `bench alloc compare`
#[derive(clap::Args)]
#[command(after_help = "\
Example:\n  numapilot bench alloc compare --threads 1,2,4,8 --svg threads.svg")]
pub struct Compare {
    /// Thread counts [default: 1, 2, 4 and so on up to the number of usable CPUs].
    #[arg(short = 't', long, value_name = "N", value_delimiter = ',')]
    pub threads: Vec<NonZeroUsize>,

    /// Operations per thread, as in 10M [default: that of `mix`].
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_count)]
    pub operations: Option<u64>,

    #[command(flatten)]
    pub allocators: Allocators,
    #[command(flatten)]
    pub rounds: Rounds,
}

/// The tests of the suite.
#[derive(clap::Args)]
pub struct Tests {
    /// Run the programs of mimalloc-bench (a built checkout) or of Hoard's benchmarks in this
    /// directory instead of numapilot's own tests; may be repeated.
    #[arg(long, value_name = "DIR")]
    pub programs: Vec<PathBuf>,

    /// Run programs that are installed on this machine (python3, perl, git, g++, sqlite3, sort,
    /// redis, postgres, node, java) instead of numapilot's own tests.
    #[arg(long, conflicts_with = "programs")]
    pub installed: bool,

    /// Run only tests whose name matches.
    #[arg(long, value_name = "REGEX")]
    pub filter: Option<Regex>,

    /// The allocator to which ratios refer [default: mimalloc if found, else glibc].
    #[arg(long, value_name = "NAME")]
    pub reference: Option<String>,

    /// Threads of each test [default: the number of usable CPUs].
    #[arg(short = 't', long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
}

/// The allocators under comparison.
#[derive(clap::Args)]
pub struct Allocators {
    /// Also compare the allocator libraries in this directory; may be repeated.
    #[arg(long, value_name = "DIR")]
    pub peers: Vec<PathBuf>,

    /// Compare only these: names, or NAME=PATH of a library [default: glibc and all that are
    /// found].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub allocators: Vec<String>,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Rounds, their order and the picture.
#[derive(clap::Args)]
pub struct Rounds {
    /// Runs of each test under each allocator.
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = units::whole::<u32>(1..=10_000))]
    pub rounds: u32,

    /// End a run after this time and leave the test out for this allocator.
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "2m")]
    pub timeout: Duration,

    /// Seed of the random order.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// Draw the results into FILE.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}
