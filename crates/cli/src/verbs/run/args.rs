//! Arguments of `run`.

use std::ffi::OsString;

use numapilot_cli_kit::plan_args::PlanArgs;

/// Arguments of `run`.
#[derive(clap::Args)]
#[command(after_help = "\
The exit status is the program's, or 128+N when signal N ended it; 125 is numapilot's own \
failure, 126 a program that cannot be executed, 127 one that is not there.\n\n\
Examples:\n  numapilot run --interleave all --allocator jemalloc -- ./server --port 80\n  \
numapilot run --profile best.toml -- ./server\n  \
numapilot run --per-node -- ./server --port 80{node}")]
pub struct Args {
    #[command(flatten)]
    pub plan: PlanArgs,

    /// Print the line for a shell that does the same, and run nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// Fail when a part of the plan cannot be done, instead of saying so and going on; and when
    /// it was done and has no effect on the running program, which is let run to its end first.
    #[arg(long)]
    pub strict: bool,

    /// Start one instance for each node, bound to its CPUs and memory; {node} in the command
    /// and in variables is replaced by its number.
    #[arg(long)]
    pub per_node: bool,

    /// With --per-node: put "[node N] " before every line of output.
    #[arg(long, requires = "per_node")]
    pub prefix: bool,

    /// Say what is done, and what of it is seen in the running program.
    #[arg(short, long)]
    pub verbose: bool,

    /// The program and its arguments.
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub command: Vec<OsString>,
}
