//! `numapilot lab shell`: a shell on an emulated machine.

use std::ffi::OsString;
use std::io::{IsTerminal, stdin, stdout};
use std::process::ExitCode;

use anyhow::bail;
use numapilot_lab::{Lab, Streams, WindowSize};

use super::run::MachineArgs;

/// Programs that a shell is not much without; those that this machine has.
const PROGRAMS: [&str; 28] = [
    "awk", "cat", "chmod", "cp", "cut", "dmesg", "env", "find", "free", "grep", "head", "kill",
    "less", "ls", "mkdir", "nproc", "numactl", "numastat", "ps", "rm", "sed", "sleep", "sort",
    "tail", "taskset", "top", "vi", "wc",
];

/// Arguments of `lab shell`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    machine: MachineArgs,
    /// The shell and its arguments.
    #[arg(value_name = "COMMAND", default_value = "sh", trailing_var_arg = true)]
    command: Vec<OsString>,
}

impl Args {
    pub fn run(mut self) -> anyhow::Result<ExitCode> {
        if !stdin().is_terminal() || !stdout().is_terminal() {
            bail!("lab shell needs a terminal; to run a script: numapilot lab run ... -- sh FILE");
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let there =
            |program: &&str| numapilot_place::find_program(program.as_ref(), &path).is_some();
        let programs = PROGRAMS.iter().copied().filter(|p| there(p)).map(OsString::from);
        self.machine.include_also(programs);
        let size = terminal_size::terminal_size_of(stdout());
        let size = size.map_or(WindowSize { rows: 24, columns: 80 }, |(width, height)| {
            WindowSize { rows: height.0, columns: width.0 }
        });
        let request = self.machine.request(self.command, None, Streams::Terminal(size))?;
        let outcome = Lab::find()?.run(&request)?;
        Ok(ExitCode::from(outcome.status))
    }
}
