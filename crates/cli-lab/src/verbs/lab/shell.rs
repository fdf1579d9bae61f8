//! `numapilot lab shell`: a shell on an emulated machine.

use std::ffi::OsString;
use std::io::{IsTerminal, Write, stdin, stdout};
use std::process::ExitCode;

use anyhow::bail;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_lab::{Lab, Streams, WindowSize};

use super::args::MachineArgs;

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
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        if !stdin().is_terminal() || !stdout().is_terminal() {
            bail!("lab shell needs a terminal; to run a script: numapilot lab run ... -- sh FILE");
        }
        let size = terminal_size::terminal_size_of(stdout());
        let size = size.map_or(WindowSize { rows: 24, columns: 80 }, |(width, height)| {
            WindowSize { rows: height.0, columns: width.0 }
        });
        let request = self.machine.request(self.command, None, Streams::Terminal(size), 1)?;
        let name = &request.shape.name;
        // A closed standard error must not end the shell.
        let _ = writeln!(
            terminal.err(),
            "numapilot: booting {name}; to leave it: exit, or Ctrl-] three times"
        );
        let outcome = Lab::find()?.run(&request)?;
        Ok(ExitCode::from(outcome.status))
    }
}
