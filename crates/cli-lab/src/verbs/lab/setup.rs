//! `numapilot lab setup`.

use std::io::Write;
use std::process::ExitCode;

use numapilot_cli_kit::terminal::Terminal;
use numapilot_lab::{cache_directory, setup};

/// Arguments of `lab setup`.
#[derive(clap::Args)]
pub struct Args {}

impl Args {
    #[allow(clippy::unused_self, reason = "every verb is run in this way")]
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let mut say = |what: &str| terminal.say(what);
        let ready = setup::setup(&mut say)?;
        let mut out = terminal.out();
        writeln!(out, "QEMU {}: {}", ready.emulator.version, ready.emulator.program.display())?;
        writeln!(out, "Linux {}: {}", ready.kernel.version, ready.kernel.path.display())?;
        writeln!(out, "cache: {}", cache_directory()?.display())?;
        Ok(ExitCode::SUCCESS)
    }
}
