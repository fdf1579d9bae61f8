//! Arguments of measuring, which a search and a single trial share.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use numapilot_cli_kit::units;
use numapilot_place::via::Template;
use numapilot_tune::run::{Decimal, Limits, Restart, expression};
use regex::Regex;

use super::limit::limit;
use super::server_command::ServerCommand;

/// Options of measuring.
#[derive(clap::Args)]
pub struct MeasureArgs {
    /// Measure on this emulated machine, a name of `numapilot lab list` or a description file:
    /// every run boots it, and times are simulated.
    #[arg(long, value_name = "MACHINE", help_heading = "Measuring",
          conflicts_with_all = ["allow_held_settings", "allow_machine_wide"])]
    pub lab: Option<String>,

    /// Start the program by another launcher: {} in the template becomes `numapilot run` with the
    /// plan and the command, as in 'srun -N2 {}'. A run counts only if every far end attests that
    /// the plan took effect. Or a name as for run: slurm, docker:IMAGE, spark, dask.
    #[arg(long, value_name = "TEMPLATE", help_heading = "Measuring",
          conflicts_with_all = ["lab", "server"])]
    pub via: Option<Template>,

    /// With --via: how many far ends must attest what took effect [default: as many tasks as the
    /// launcher tells them (Slurm, MPI, Flux), or one for ssh and for a container].
    // Clap does not require an option that conflicts with one that is given.
    #[arg(long, value_name = "N", requires = "via", help_heading = "Measuring",
          conflicts_with_all = ["lab", "server"], value_parser = units::whole::<u32>(1..))]
    pub via_count: Option<u32>,

    /// Directory for the attestations, which must be shared with the far ends [default: in that of
    /// --state].
    #[arg(long, value_name = "DIR", requires = "via", help_heading = "Measuring",
          conflicts_with_all = ["lab", "server"])]
    pub attest: Option<PathBuf>,

    /// Seconds on the emulated machine's clocks in a simulated second, as for `lab run`.
    #[arg(long, value_name = "N", requires = "lab", help_heading = "Measuring",
          value_parser = units::whole::<u16>(1..=1000))]
    pub time_scale: Option<u16>,

    /// Add a file, a directory, or a program by name to the emulated machine, as for `lab run`; may
    /// be repeated.
    #[arg(long, value_name = "PATH|PROGRAM", requires = "lab", help_heading = "Measuring")]
    pub include: Vec<OsString>,

    /// Compare the number in the first group of the last match in the output, instead of wall
    /// time; ^ and $ match at the ends of each line.
    #[arg(long, value_name = "REGEX", value_parser = expression, help_heading = "Measuring")]
    pub metric: Option<Regex>,

    /// The number in the first group of this in a line that the program prints grows while it runs,
    /// as in 'rows ([0-9]+)'. A run that falls hopelessly behind the best one is cut short, except
    /// those of the default and of the plans that race.
    #[arg(long, value_name = "REGEX", value_parser = expression, help_heading = "Measuring",
          conflicts_with_all = ["metric", "server", "lab", "via"])]
    pub progress: Option<Regex>,

    /// More is better.
    #[arg(long, requires = "metric", help_heading = "Measuring")]
    pub maximize: bool,

    /// Decimal sign of the metric, for ambiguous numbers such as 1,021.
    #[arg(long, value_name = "SIGN", requires = "metric", help_heading = "Measuring")]
    pub decimal: Option<DecimalSign>,

    /// Exclude a plan if the text that this matches differs from the default's.
    #[arg(long, value_name = "REGEX", value_parser = expression, help_heading = "Measuring")]
    pub check: Option<Regex>,

    /// A run that exceeds rss=SIZE or time=DURATION counts as failed; may be repeated. With --lab,
    /// only time can be limited.
    #[arg(long, value_name = "LIMIT", value_parser = limit, help_heading = "Measuring")]
    pub limit: Vec<Limits>,

    /// End a run (with --server, the load) after this time and count it as failed [default: ten times the default's
    /// slowest run, at least 10s, or with --lab 120s; until the default has run, what is left of
    /// --max-time]. With --lab, it is time of this host with the boot, for each guest that runs at
    /// the same time.
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Measuring")]
    pub timeout: Option<Duration>,

    /// Exclude a plan if it is shown to fail in more than this many percent of its runs, and more
    /// often than the default; with 0, at its first failure.
    #[arg(long, value_name = "PERCENT", value_parser = units::tolerance, default_value = "5",
          help_heading = "Measuring")]
    pub failure_tolerance: f64,

    /// Measure even if another run of numapilot holds a machine-wide setting, such as AutoNUMA
    /// switched off, which then applies to every run; the report and the profile mention it.
    #[arg(long, help_heading = "Measuring")]
    pub allow_held_settings: bool,

    /// Run this in a shell before every run; its time does not count.
    #[arg(long, visible_alias = "setup", value_name = "SHELL", help_heading = "Measuring")]
    pub prepare: Option<String>,

    /// Run this in a shell after every run, also after one that failed or was interrupted; its time
    /// does not count.
    #[arg(long, value_name = "SHELL", help_heading = "Measuring")]
    pub cleanup: Option<String>,

    /// Standard input of the program (with --server, of the load), from its beginning in every run
    /// [default: the input redirected into numapilot, else empty].
    #[arg(long, value_name = "FILE", help_heading = "Measuring")]
    pub stdin: Option<PathBuf>,
}

/// Options of a server.
#[derive(clap::Args)]
pub struct ServerArgs {
    /// Measure a server: every run starts this command under its plan, waits for --ready, runs
    /// --load and stops the server. It is quoted as in a shell, but no shell runs it.
    #[arg(long, value_name = "COMMAND", value_parser = ServerCommand::parse,
          requires_all = ["ready", "load"], conflicts_with = "command",
          help_heading = "Servers")]
    pub server: Option<ServerCommand>,

    /// Repeat this in a shell until it succeeds: the server is ready.
    #[arg(long, value_name = "SHELL", requires = "server", help_heading = "Servers")]
    pub ready: Option<String>,

    /// Put load on the server with this, in a shell and outside of the plan; --metric and --check
    /// apply to its output. Of several matches of --metric, as in progress lines, the mean counts,
    /// without those of the warm-up.
    #[arg(long, value_name = "SHELL", requires = "server", help_heading = "Servers")]
    pub load: Option<String>,

    /// Run the load on these CPUs, and the server on the others.
    #[arg(long, value_name = "CPUS", requires = "server", help_heading = "Servers")]
    pub load_cpus: Option<String>,

    /// When the server is started: for every run under its plan, or once. Then each run changes the
    /// CPUs, memory policy and huge pages of the running server, and only such plans are compared.
    #[arg(
        long,
        value_name = "WHEN",
        requires = "server",
        conflicts_with = "lab",
        default_value = "plan",
        help_heading = "Servers"
    )]
    pub restart: RestartWhen,

    /// A server that is not ready after this time has failed.
    #[arg(long, value_name = "TIME", requires = "server", value_parser = units::duration,
          default_value = "60s", help_heading = "Servers")]
    pub ready_timeout: Duration,

    /// Kill a server that has not ended this long after SIGTERM.
    #[arg(long, value_name = "TIME", requires = "server", value_parser = units::duration,
          default_value = "60s", help_heading = "Servers")]
    pub stop_timeout: Duration,
}

/// `--restart`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum RestartWhen {
    /// For every run.
    Plan,
    /// Once; caches stay warm.
    Never,
}

impl From<RestartWhen> for Restart {
    fn from(when: RestartWhen) -> Self {
        match when {
            RestartWhen::Plan => Self::Plan,
            RestartWhen::Never => Self::Never,
        }
    }
}

/// `--decimal`.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum DecimalSign {
    /// 1.5; a comma separates thousands.
    Point,
    /// 1,5; a point separates thousands.
    Comma,
}

impl From<DecimalSign> for Decimal {
    fn from(sign: DecimalSign) -> Self {
        match sign {
            DecimalSign::Point => Self::Point,
            DecimalSign::Comma => Self::Comma,
        }
    }
}
