//! Machine-wide settings that are changed during a run and always restored.
//!
//! ```text
//!  acquire: settle dead runs -> write entry {owner, original, held} -> write the setting
//!  release: last holder -> write original, unless another program changed it -> remove entry
//!  reserve: write entry {owner, reserved}, which keeps other processes from changing the setting
//!  restore: as release, for the entries of dead owners
//! ```
//!
//! Every run that holds a setting has an entry with the value from before the first of them. The
//! entry is on disk before the change, so the setting can be restored after `kill -9` at any point.
//! All operations hold a lock on the journal's directory.

mod directory;
mod entry;
mod error;
mod outcome;
mod setting;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use directory::Directory;
use directory::file_error;
use entry::{Changed, Entry};
pub use entry::{Owner, State, load, save};
pub use error::SettingsJournalError;
pub use outcome::{Done, Outcome};
pub(crate) use setting::chosen;
pub use setting::{Change, Setting};

use serde::Serialize;

use crate::guard;

/// The journal of machine-wide changes.
#[derive(Clone, Debug)]
pub struct SettingsJournal {
    directory: Directory,
    root: PathBuf,
}

/// A process that holds a setting at another value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// The setting.
    pub setting: Setting,
    /// Its value meanwhile, or `None` if it changes from run to run.
    pub value: Option<String>,
    /// The process.
    pub pid: u32,
    /// The command, for the user.
    pub command: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, value, pid, command } = self;
        match value {
            Some(value) => write!(f, "{setting} is held at {value} by run {pid} ({command})"),
            None => write!(f, "{setting} is changed from run to run by process {pid} ({command})"),
        }
    }
}

/// The readable entries with their files, and an outcome for each that cannot be read.
type Contents = (Vec<(PathBuf, Entry)>, Vec<Outcome>);

/// Settings that are held until this is released. If it is dropped, they are restored silently.
#[derive(Debug)]
pub struct Held {
    journal: SettingsJournal,
    path: Option<PathBuf>,
}

impl SettingsJournal {
    /// The journal of this machine: in [`Directory::system`].
    ///
    /// # Errors
    /// [`SettingsJournalError::NoDirectory`] if there is no directory for it.
    pub fn system() -> Result<Self, SettingsJournalError> {
        Ok(Self { directory: Directory::system("numapilot")?, root: PathBuf::from("/") })
    }

    /// A journal in `directory` for the settings below `root`.
    #[must_use]
    pub fn at(directory: PathBuf, root: PathBuf) -> Self {
        Self { directory: Directory::at(directory), root }
    }

    /// Makes the changes and holds them. Returns `None` if every setting already has its value and
    /// no other run will change it back. `command` describes the run for the user.
    ///
    /// # Errors
    /// [`SettingsJournalError`]. All settings are then restored.
    pub fn acquire(
        &self,
        changes: &[Change],
        command: &str,
    ) -> Result<Option<Held>, SettingsJournalError> {
        if changes.is_empty() {
            return Ok(None);
        }
        self.directory.make()?;
        let _lock = self.directory.lock()?;
        self.settle_all(false)?;
        let (entries, _) = self.entries()?;
        let owner = self.this()?;
        let mut changed = Vec::new();
        for Change { setting, value } in changes {
            let fail = |source| SettingsJournalError::Setting {
                setting: *setting,
                value: value.clone(),
                source,
            };
            let current = setting.read(&self.root).map_err(fail)?;
            refuse_reserved(&entries, &owner, *setting)?;
            let holder = entries.iter().find_map(|(_, e)| {
                e.changes.iter().find(|c| c.setting == *setting).map(|c| (e, c))
            });
            let original = match holder {
                // Another program has changed the value since. This run will restore that value.
                Some((_, c)) if c.held == *value && current != *value => current,
                Some((_, c)) if c.held == *value => c.original.clone(),
                Some((e, c)) => {
                    return Err(SettingsJournalError::Held {
                        setting: *setting,
                        held: c.held.clone(),
                        pid: e.owner.pid,
                        command: e.command.clone(),
                    });
                }
                None if current == *value => continue,
                None => current,
            };
            changed.push(Changed { setting: *setting, original, held: value.clone() });
        }
        if changed.is_empty() {
            return Ok(None);
        }
        // Without a guard the next start of numapilot restores the settings.
        let _ = guard::start();
        let entry =
            Entry { owner, command: command.to_owned(), changes: changed, reserved: Vec::new() };
        let path = entry.new_path(self.directory.path());
        save(&entry, &path).map_err(|e| file_error(&path, e))?;
        for change in &entry.changes {
            if let Err(source) = change.setting.write(&self.root, &change.held) {
                self.settle(&path, &entry);
                return Err(SettingsJournalError::Setting {
                    setting: change.setting,
                    value: change.held.clone(),
                    source,
                });
            }
        }
        Ok(Some(Held { journal: self.clone(), path: Some(path) }))
    }

    /// Reserves these settings for this process until the result is dropped. The process changes
    /// them from run to run with [`SettingsJournal::acquire`], and no other process can change
    /// them. `command` describes the purpose for the user.
    ///
    /// # Errors
    /// [`SettingsJournalError`] if another process holds or has reserved one of them.
    pub fn reserve(
        &self,
        settings: &[Setting],
        command: &str,
    ) -> Result<Held, SettingsJournalError> {
        self.directory.make()?;
        let _lock = self.directory.lock()?;
        self.settle_all(false)?;
        let (entries, _) = self.entries()?;
        let owner = self.this()?;
        for setting in settings {
            refuse_reserved(&entries, &owner, *setting)?;
            if let Some((entry, held)) = entries.iter().find_map(|(_, entry)| {
                Some((entry, entry.changes.iter().find(|c| c.setting == *setting)?))
            }) {
                return Err(SettingsJournalError::Held {
                    setting: *setting,
                    held: held.held.clone(),
                    pid: entry.owner.pid,
                    command: entry.command.clone(),
                });
            }
        }
        // Without a guard the next start of numapilot settles the entry.
        let _ = guard::start();
        let reserved = settings.to_vec();
        let entry = Entry { owner, command: command.to_owned(), changes: Vec::new(), reserved };
        let path = entry.new_path(self.directory.path());
        save(&entry, &path).map_err(|e| file_error(&path, e))?;
        Ok(Held { journal: self.clone(), path: Some(path) })
    }

    /// The settings that other processes hold or have reserved.
    ///
    /// # Errors
    /// [`SettingsJournalError`] if the journal cannot be read.
    pub fn holders(&self) -> Result<Vec<Holder>, SettingsJournalError> {
        if !self.directory.path().try_exists().map_err(|e| file_error(self.directory.path(), e))? {
            return Ok(Vec::new());
        }
        self.directory.make()?;
        let _lock = self.directory.lock()?;
        let owner = self.this()?;
        let (entries, _) = self.entries()?;
        let others = entries.iter().filter(|(_, entry)| {
            entry.owner != owner
                && entry.owner.state().is_ok_and(|s| matches!(s, State::Alive | State::Unknown))
        });
        Ok(others.flat_map(|(_, entry)| holders(entry)).collect())
    }

    fn this(&self) -> Result<Owner, SettingsJournalError> {
        Owner::this().map_err(|e| file_error(self.directory.path(), e))
    }

    /// Restores the settings of dead runs, and with `force` also those of live runs.
    ///
    /// # Errors
    /// [`SettingsJournalError`] if the journal cannot be read. An entry that cannot be settled is
    /// an [`Outcome`].
    pub fn restore(&self, force: bool) -> Result<Vec<Outcome>, SettingsJournalError> {
        if !self.directory.path().try_exists().map_err(|e| file_error(self.directory.path(), e))? {
            return Ok(Vec::new());
        }
        self.directory.make()?;
        let _lock = self.directory.lock()?;
        self.settle_all(force)
    }

    /// Whether no run, alive or dead, holds a setting.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.directory.path().exists()
            || self.entries().is_ok_and(|(e, bad)| e.is_empty() && bad.is_empty())
    }

    fn settle_all(&self, force: bool) -> Result<Vec<Outcome>, SettingsJournalError> {
        let (entries, mut outcomes) = self.entries()?;
        for (path, entry) in &entries {
            let run = describe(entry);
            let state = entry.owner.state().map_err(|e| file_error(path, e))?;
            match state {
                State::OtherBoot => remove(path, &run, &mut outcomes),
                State::Alive | State::Unknown if !force => {
                    outcomes.extend(holders(entry).map(|holder| Outcome {
                        setting: Some(holder.setting),
                        run: run.clone(),
                        done: Done::InUse,
                    }));
                }
                _ => outcomes.extend(self.settle(path, entry)),
            }
        }
        self.directory.remove_unfinished();
        Ok(outcomes)
    }

    /// Settles one entry: restores the settings that no other run holds, then removes the entry. An
    /// entry whose setting could not be written stays for another try.
    fn settle(&self, path: &Path, entry: &Entry) -> Vec<Outcome> {
        let run = describe(entry);
        let others = self.entries().map(|(e, _)| e).unwrap_or_default();
        let held_by_others = |setting| {
            others.iter().any(|(p, e)| p != path && e.changes.iter().any(|c| c.setting == setting))
        };
        let mut outcomes: Vec<Outcome> = entry
            .changes
            .iter()
            .map(|change| {
                let done = if held_by_others(change.setting) {
                    Done::HeldByOthers
                } else {
                    outcome::put_back(change, &self.root)
                };
                Outcome { setting: Some(change.setting), run: run.clone(), done }
            })
            .collect();
        if !outcomes.iter().any(|o| matches!(o.done, Done::Failed(_))) {
            remove(path, &run, &mut outcomes);
        }
        outcomes
    }

    fn entries(&self) -> Result<Contents, SettingsJournalError> {
        let fail = |e| file_error(self.directory.path(), e);
        let mut entries = Vec::new();
        let mut unreadable = Vec::new();
        for file in fs::read_dir(self.directory.path()).map_err(fail)? {
            let path = file.map_err(fail)?.path();
            if path.extension().is_none_or(|suffix| suffix != entry::COMPLETE) {
                continue;
            }
            match load::<Entry>(&path) {
                Ok(entry) => entries.push((path, entry)),
                Err(error) => unreadable.push(Outcome {
                    setting: None,
                    run: path.display().to_string(),
                    done: Done::Failed(format!("{error}; remove the file by hand")),
                }),
            }
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        Ok((entries, unreadable))
    }
}

impl Held {
    /// Restores the settings that no other run holds.
    #[must_use]
    pub fn release(mut self) -> Vec<Outcome> {
        self.settle()
    }

    fn settle(&mut self) -> Vec<Outcome> {
        let Some(path) = self.path.take() else { return Vec::new() };
        let failed = |error: &dyn std::fmt::Display| {
            vec![Outcome {
                setting: None,
                run: path.display().to_string(),
                done: Done::Failed(error.to_string()),
            }]
        };
        let _lock = match self.journal.directory.lock() {
            Ok(lock) => lock,
            Err(error) => return failed(&error),
        };
        match load::<Entry>(&path) {
            Ok(entry) => self.journal.settle(&path, &entry),
            // `restore --force` has already removed it.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => failed(&error),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.settle();
    }
}

fn remove(path: &Path, run: &str, outcomes: &mut Vec<Outcome>) {
    if let Err(error) = fs::remove_file(path) {
        let done = Done::Failed(format!("{}: {error}", path.display()));
        outcomes.push(Outcome { setting: None, run: run.to_owned(), done });
    }
}

/// Fails if another process has reserved a setting.
fn refuse_reserved(
    entries: &[(PathBuf, Entry)],
    owner: &Owner,
    setting: Setting,
) -> Result<(), SettingsJournalError> {
    let is_in_the_way = |entry: &Entry| entry.owner != *owner && entry.reserved.contains(&setting);
    match entries.iter().find(|(_, entry)| is_in_the_way(entry)) {
        None => Ok(()),
        Some((_, entry)) => Err(SettingsJournalError::Reserved {
            setting,
            pid: entry.owner.pid,
            command: entry.command.clone(),
        }),
    }
}

fn holders(entry: &Entry) -> impl Iterator<Item = Holder> + '_ {
    let changed = entry.changes.iter().map(|c| (c.setting, Some(c.held.clone())));
    changed.chain(entry.reserved.iter().map(|s| (*s, None))).map(|(setting, value)| Holder {
        setting,
        value,
        pid: entry.owner.pid,
        command: entry.command.clone(),
    })
}

fn describe(entry: &Entry) -> String {
    format!("run {} ({})", entry.owner.pid, entry.command)
}

#[cfg(test)]
mod tests;
