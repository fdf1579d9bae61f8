//! Arguments of `run`.

use std::ffi::OsString;
use std::path::PathBuf;

use numapilot_cli_kit::plan_args::PlanArgs;
use numapilot_cli_kit::units;
use numapilot_place::via::Template;

/// Arguments of `run`.
#[derive(clap::Args)]
#[command(after_help = "\
The exit status is the program's, or 128+N when signal N ended it; 125 is numapilot's own \
failure, 126 a program that cannot be executed, 127 one that is not there.\n\n\
Examples:\n  numapilot run --interleave all --allocator jemalloc -- ./server --port 80\n  \
numapilot run --profile best.toml -- ./server\n  \
numapilot run --per-node -- ./server --port 80{node}\n  \
numapilot run --profile best.toml --via 'srun -N2 {}' -- ./app")]
pub struct Args {
    #[command(flatten)]
    pub plan: PlanArgs,

    /// Print an equivalent shell command, and run nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// Fail if a part of the plan cannot be applied, instead of warning and continuing; also fail,
    /// after the program has ended, if a part had no effect on it.
    #[arg(long)]
    pub strict: bool,

    /// Start one instance for each node, bound to its CPUs and memory; its number replaces {node}
    /// in the command and in variables.
    #[arg(long)]
    pub per_node: bool,

    /// With --per-node: prefix every line of output with "[node N] ".
    #[arg(long, requires = "per_node")]
    pub prefix: bool,

    /// Start the program by another launcher: {} in the template becomes `numapilot run` with this
    /// plan and the command, as in 'srun -N2 {}'. Or a name: slurm or slurm:OPTIONS, docker:IMAGE,
    /// podman:IMAGE, nerdctl:IMAGE, spark, dask.
    #[arg(long, value_name = "TEMPLATE", conflicts_with = "per_node")]
    pub via: Option<Template>,

    /// With --via: how many far ends must attest what took effect [default: as many tasks as the
    /// launcher tells them (Slurm, MPI, Flux), or one for ssh and for a container].
    #[arg(long, value_name = "N", requires = "via",
          value_parser = units::whole::<u32>(1..))]
    pub via_count: Option<u32>,

    /// Write what took effect, read back from the running program, into a file in DIR. With --via,
    /// each far end does that in a new directory in DIR, which must be shared with them [default: the
    /// working directory, where the new one is removed at the end].
    #[arg(long, value_name = "DIR", conflicts_with = "per_node")]
    pub attest: Option<PathBuf>,

    /// Print what is done, and which effects are seen in the running program.
    #[arg(short, long)]
    pub verbose: bool,

    /// The program and its arguments.
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub command: Vec<OsString>,
}
