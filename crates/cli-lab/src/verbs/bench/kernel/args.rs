//! Arguments of the kernels.

use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ValueEnum};
use numapilot_cli_kit::units;
use numapilot_workloads::kernels::{self, Kernel, Options, Place, Time};

/// Named sizes.
#[derive(Clone, Copy, ValueEnum)]
pub enum Scale {
    /// 16 MiB: exceeds the small caches of emulated machines.
    Lab,
    /// 256 MiB: exceeds the caches of most machines.
    Laptop,
    /// 1 GiB, the size of a burst of IS.
    Paper,
}

impl Scale {
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Lab => 16 << 20,
            Self::Laptop => 256 << 20,
            Self::Paper => 1 << 30,
        }
    }
}

/// Options of every kernel.
#[derive(clap::Args)]
pub struct Common {
    /// Threads, each pinned to a CPU, alternating between nodes [default: the number of usable
    /// CPUs].
    #[arg(short = 't', long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,

    /// The size if --size is not given [default: lab in a lab, else laptop].
    #[arg(long, value_enum)]
    pub scale: Option<Scale>,

    /// The size of the data of all threads together, as in 64M.
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub size: Option<u64>,

    /// Seed of the data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Repeat the work for this time (simulated time in a lab), and report the settled rate.
    #[arg(long = "for", value_name = "TIME", value_parser = units::duration)]
    pub lasts: Option<Duration>,

    /// Predict the time from this machine description [default: in a lab, that of its machine].
    #[arg(long, value_name = "NAME|FILE")]
    pub machine: Option<String>,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Makes `--place` accept the placements that a kernel supports.
pub fn place(kernel: Kernel) -> impl FnOnce(Arg) -> Arg {
    let names = kernel.places().iter().chain([&Place::Best]).map(|place| place.name());
    let parser = PossibleValuesParser::new(names).try_map(|name| name.parse::<Place>());
    |argument| argument.value_parser(parser)
}

/// Arguments of a kernel.
#[derive(clap::Args)]
pub struct Plain {
    /// Where its memory is placed.
    #[arg(long, value_name = "PLACE", default_value = "first-touch")]
    pub place: Place,

    #[command(flatten)]
    pub common: Common,
}

/// Arguments of k6.
#[derive(clap::Args)]
pub struct Rotate {
    #[command(flatten)]
    pub plain: Plain,

    /// How long threads stay on a node [default: four passes over their arrays].
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub period: Option<Duration>,
}

/// Arguments of k11.
#[derive(clap::Args)]
pub struct ReadMostly {
    #[command(flatten)]
    pub plain: Plain,

    /// Reads per write.
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = units::whole::<u64>(1..))]
    pub writes_every: u64,
}

impl Common {
    /// The options of a run with this placement.
    pub fn options(&self, place: Place) -> anyhow::Result<Options> {
        let threads = self.threads.or(thread::available_parallelism().ok());
        let usual = match kernels::time()? {
            Time::Simulated => Scale::Lab,
            Time::Wall => Scale::Laptop,
        };
        Ok(Options {
            place,
            threads: threads.unwrap_or(NonZeroUsize::MIN),
            bytes: self.size.unwrap_or(self.scale.unwrap_or(usual).bytes()),
            seed: self.seed,
            period: None,
            lasts: self.lasts,
            writes_every: None,
            machine: self.machine.clone(),
        })
    }
}
