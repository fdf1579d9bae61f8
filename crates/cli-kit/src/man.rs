//! Generates manual pages from the argument table, so they are never out of date.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::Context;
use clap::Command;
use clap_mangen::Man;

/// Writes a page for each of these verbs (`numapilot-run.1`) and for each of their subcommands into
/// a directory, which is created, and calls `more` to write further pages there.
///
/// # Errors
/// Fails if the directory cannot be created or written.
pub fn write_verbs(
    command: Command,
    dir: &Path,
    is_wanted: impl Fn(&str) -> bool,
    more: impl FnOnce(&Command, &Path) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let verbs = command.get_subcommands().filter(|verb| is_wanted(verb.get_name()));
    fs::create_dir_all(dir)
        .and_then(|()| verbs.cloned().try_for_each(|verb| write(verb, dir)))
        .and_then(|()| more(&command, dir))
        .with_context(|| format!("cannot write manual pages into {}", dir.display()))
}

/// Writes the page of a command and those of its subcommands.
fn write(command: Command, dir: &Path) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        write(inner.clone(), dir)?;
    }
    Man::new(command).generate_to(dir).map(drop)
}
