//! Runs one kernel in one placement.

use std::process::ExitCode;

use numapilot_cli_kit::settle::Measured;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_workloads::kernels::{self, Kernel, Options};

use super::args::{Plain, ReadMostly, Rotate};
use super::text;

/// Runs a kernel that has no options of its own.
pub fn plain(args: &Plain, terminal: &Terminal, kernel: Kernel) -> anyhow::Result<ExitCode> {
    let options = args.common.options(args.place)?;
    run(args, terminal, kernel, &options)
}

/// Runs k6.
pub fn rotate(args: &Rotate, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let options = args.plain.common.options(args.plain.place)?;
    let options = Options { period: args.period, ..options };
    run(&args.plain, terminal, Kernel::Rotate, &options)
}

/// Runs k11.
pub fn read_mostly(args: &ReadMostly, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let options = args.plain.common.options(args.plain.place)?;
    let options = Options { writes_every: Some(args.writes_every), ..options };
    run(&args.plain, terminal, Kernel::ReadMostly, &options)
}

fn run(
    args: &Plain,
    terminal: &Terminal,
    kernel: Kernel,
    options: &Options,
) -> anyhow::Result<ExitCode> {
    let outcome = kernels::run(kernel, options)?;
    if args.common.json {
        terminal.json(&Measured::new(terminal, &outcome))?;
    } else {
        text::print(terminal, kernel, options, &outcome)?;
    }
    Ok(ExitCode::SUCCESS)
}
