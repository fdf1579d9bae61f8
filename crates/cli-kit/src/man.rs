//! Generates manual pages from the argument table, so they are never out of date.

use std::io;
use std::path::Path;

use anyhow::bail;
use clap::Command;
use clap_mangen::Man;

use crate::file::{self, Existing};

/// Writes a page for each of these verbs (`numapilot-run.1`) and for each of their subcommands into
/// a directory, and the pages that `more` returns, by their names. Each page is written whole or not
/// at all.
///
/// # Errors
/// Fails if there is no such directory, which may be a mistyped one, or if it cannot be written.
pub fn write_verbs(
    command: Command,
    dir: &Path,
    is_wanted: impl Fn(&str) -> bool,
    more: impl FnOnce(&Command) -> io::Result<Vec<Page>>,
) -> anyhow::Result<()> {
    if !dir.is_dir() {
        bail!(
            "cannot write manual pages into {}: it is no directory; make it with mkdir -p, or \
             choose another one",
            dir.display()
        );
    }
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    for verb in command.get_subcommands().filter(|verb| is_wanted(verb.get_name())) {
        add(verb, &mut pages)?;
    }
    pages.extend(more(&command)?);
    pages
        .iter()
        .try_for_each(|page| file::put_bytes(&dir.join(&page.name), &page.text, Existing::Replace))
}

/// A manual page.
pub struct Page {
    /// The name of its file.
    pub name: String,
    /// Its text, in the format of man(7).
    pub text: Vec<u8>,
}

impl Page {
    /// The page of a command.
    ///
    /// # Errors
    /// None: it is written into memory.
    pub fn of(command: &Command) -> io::Result<Self> {
        let (man, mut text) = (Man::new(command.clone()), Vec::new());
        man.render(&mut text)?;
        Ok(Self { name: man.get_filename(), text })
    }
}

/// Adds the pages of a command's subcommands and its own.
fn add(command: &Command, pages: &mut Vec<Page>) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        add(inner, pages)?;
    }
    pages.push(Page::of(command)?);
    Ok(())
}
