//! The verb `completions`: generates scripts from the argument table, so they are never out of
//! date.

use std::io::Write;
use std::process::ExitCode;

use clap::Command;
pub use clap_complete::Shell;

use crate::terminal::Terminal;

/// Arguments of `completions`.
#[derive(clap::Args)]
pub struct Args {
    /// The shell.
    shell: Shell,
}

impl Args {
    /// Prints the script of this command line for a program's file name, and what `more` adds for the
    /// shell.
    ///
    /// # Errors
    /// Fails if standard output cannot be written.
    pub fn run(
        self,
        terminal: &Terminal,
        mut command: Command,
        name: &str,
        more: impl Fn(Shell) -> &'static str,
    ) -> anyhow::Result<ExitCode> {
        // Buffered: clap_complete itself would end the process if the reader went away.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        let mut script = String::from_utf8(script)?;
        if self.shell == Shell::Bash {
            script = with_one_name(&script, name);
        }
        script += more(self.shell);
        terminal.out().write_all(script.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Repairs the script for bash of a program with a hyphen in its name: clap_complete 4.6 sets the
/// state `a__b__subcmd__run` in the first part of the script and expects `a__subcmd__b__subcmd__run`
/// in the second part, so nothing is completed behind a subcommand.
fn with_one_name(script: &str, name: &str) -> String {
    let state = |hyphen: &str| name.replace('-', hyphen) + "__subcmd__";
    script.replace(&state("__subcmd__"), &state("__"))
}
