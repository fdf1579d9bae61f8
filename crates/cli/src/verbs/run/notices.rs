//! Prints notices before and after programs, and chooses the exit status.

use std::fmt::Display;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use numapilot_cli_kit::terminal::Terminal;
use numapilot_place::settings_journal::Setting;
use numapilot_place::{Finished, Prepared};

use crate::verbs::exit_code::exit_code;

/// Prints what `who` (a verb, or a profile, which may come from somebody else) changes for the
/// whole machine, except settings that were `asked` for by name.
pub fn announce(terminal: &Terminal, who: impl Display, prepared: &Prepared, asked: &[Setting]) {
    let changes = prepared.machine_wide().iter().filter(|change| !asked.contains(&change.setting));
    for change in changes {
        terminal
            .say(format_args!("{who} sets {change} for the whole machine while the program runs"));
    }
}

/// Prints what went wrong after the programs, and returns the first status that is not success.
pub fn finish(terminal: &Terminal, ends: &[Finished]) -> ExitCode {
    for end in ends {
        for outcome in end.settings.iter().filter(|o| o.is_trouble()) {
            terminal.warn(outcome);
        }
        for note in end.threads.iter().flat_map(|threads| threads.notes()) {
            terminal.warn(note);
        }
    }
    ends.iter()
        .map(|end| exit_code(end.status))
        .find(|s| *s != 0)
        .map_or(ExitCode::SUCCESS, ExitCode::from)
}

/// Prints the commands that would be executed.
pub fn dry_run<'a>(
    terminal: &Terminal,
    all: impl Iterator<Item = &'a Prepared>,
) -> anyhow::Result<ExitCode> {
    let mut out = terminal.out();
    for prepared in all {
        out.write_all(prepared.shell_line().as_bytes())?;
        out.write_all(b"\n")?;
    }
    Ok(ExitCode::SUCCESS)
}
