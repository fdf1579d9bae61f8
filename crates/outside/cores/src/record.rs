//! Records which daemon holds which target: one file per target, written before anything changes.
//!
//! The records keep two daemons from holding the same target, and two targets from getting the same
//! core. From them, `numapilot restore` puts back the changes of a daemon that was killed.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use numapilot_observe::Tree;
use numapilot_place::settings_journal::{
    Directory, Owner, SettingsJournalError, State, load, save,
};
use numapilot_place::{AlreadyManaged, Managed, ancestors, chain, check_unmanaged, guard};
use numapilot_topology::CpuSet;
use serde::{Deserialize, Serialize};

use crate::CoresError;
use crate::actuator::{Hold, Notes};

/// The verb's name, as other users see it.
const VERB: &str = "cores";

/// One target and its daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The daemon.
    owner: Owner,
    /// The target's first process.
    target: Owner,
    /// CPUs that the target has for itself.
    pub cpus: CpuSet,
    /// The change, and how to put it back.
    pub hold: Hold,
}

/// All records of this user.
#[derive(Clone, Debug)]
pub struct Records(Directory);

/// A record that is kept on disk until it is released.
#[derive(Debug)]
pub struct Claim {
    records: Records,
    path: PathBuf,
    /// The content of the record.
    pub record: Record,
    /// Shows the claim to other users, who cannot read the record.
    _managed: Option<Managed>,
}

/// Records, and files that are not valid records.
#[derive(Debug, Default)]
struct Contents {
    records: Vec<(PathBuf, Record)>,
    unreadable: Vec<(PathBuf, io::Error)>,
}

/// The result of putting back a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// A description for people.
    pub text: String,
    /// Whether it could not be put back.
    pub failed: bool,
    /// Whether it was left alone because its daemon is alive.
    pub in_use: bool,
}

impl Records {
    /// The records of this machine.
    ///
    /// # Errors
    /// Fails if there is no place for them.
    pub fn system() -> Result<Self, CoresError> {
        Ok(Self(Directory::system("numapilot-cores")?))
    }

    /// Puts back what killed daemons have left, so that the target is in its original state.
    ///
    /// # Errors
    /// [`CoresError::Taken`] if another daemon holds the target or one of its processes, and
    /// [`CoresError::Unsettled`] if the changes of a dead one cannot be put back: they would be
    /// taken for the target's original state.
    pub fn make_way(&self, root: i32, tree: &Tree) -> Result<(), CoresError> {
        self.0.make()?;
        let _lock = self.0.lock()?;
        self.conflict(root, tree)?;
        Ok(check_unmanaged(VERB, root, tree.pids())?)
    }

    /// Claims a target for this process, and of these CPUs those that no other daemon has: of two
    /// daemons that claim at the same time, the second sees what the first has.
    ///
    /// # Errors
    /// As [`Records::make_way`].
    pub fn claim(
        &self,
        root: i32,
        tree: &Tree,
        hold: Hold,
        cpus: &CpuSet,
    ) -> Result<Claim, CoresError> {
        let target = number(root).and_then(|pid| Owner::of(pid).ok()).ok_or(CoresError::Gone)?;
        // Without a guard, the next start of numapilot puts everything back.
        let _ = guard::start();
        let _lock = self.0.lock()?;
        self.conflict(root, tree)?;
        let managed = Managed::claim(VERB, root, tree.pids())?;
        let owner = Owner::this().map_err(|error| self.error(error))?;
        let path = self.0.path().join(format!("{}-{}.json", target.pid, target.start_time));
        let cpus = cpus.difference(&self.cpus_of_others()?);
        let record = Record { owner, target, cpus, hold };
        let claim = Claim { records: self.clone(), path, record, _managed: managed };
        claim.save()?;
        Ok(claim)
    }

    /// Puts back the changes of dead daemons, and fails if a live one holds the target.
    fn conflict(&self, root: i32, tree: &Tree) -> Result<(), CoresError> {
        let mut members: BTreeSet<u32> = tree.pids().filter_map(number).collect();
        members.extend(ancestors(root).into_iter().filter_map(number));
        for (path, record) in self.all()?.records {
            let lives = record.owner.state().map_err(|error| self.error(error))?;
            let is_its = record.target.state().is_ok_and(|state| state == State::Alive)
                && (members.contains(&record.target.pid) || below(&record.target, root));
            if matches!(lives, State::Dead | State::OtherBoot) {
                let outcome = settle(&path, &record);
                if outcome.failed && is_its {
                    return Err(CoresError::Unsettled { what: outcome.text });
                }
            } else if is_its && record.owner.pid != std::process::id() {
                let (target, pid) = (record.target.pid, record.owner.pid);
                return Err(AlreadyManaged { verb: VERB, target, pid }.into());
            }
        }
        Ok(())
    }

    /// CPUs that targets of other daemons have.
    ///
    /// # Errors
    /// Fails if the records cannot be read.
    pub fn cpus_of_others(&self) -> Result<CpuSet, CoresError> {
        let me = std::process::id();
        let mut cpus = CpuSet::new();
        for (_, record) in self.all()?.records {
            if record.owner.pid != me && record.owner.state().is_ok_and(|s| s == State::Alive) {
                cpus = cpus.union(&record.cpus);
            }
        }
        Ok(cpus)
    }

    /// When a record was last added or removed.
    pub(crate) fn changed(&self) -> Option<SystemTime> {
        fs::metadata(self.0.path()).and_then(|about| about.modified()).ok()
    }

    /// Puts back what dead daemons have left, and with `force` also what live ones hold.
    ///
    /// # Errors
    /// Fails if the records cannot be read.
    pub fn restore(&self, force: bool) -> Result<Vec<Outcome>, CoresError> {
        if !self.0.path().is_dir() {
            return Ok(Vec::new());
        }
        self.0.make()?;
        let _lock = self.0.lock()?;
        let Contents { records, unreadable } = self.all()?;
        let mut outcomes: Vec<Outcome> = unreadable
            .iter()
            .map(|(path, error)| Outcome {
                text: damaged(path, error),
                failed: true,
                in_use: false,
            })
            .collect();
        for (path, record) in records {
            match record.owner.state().map_err(|error| self.error(error))? {
                State::Alive | State::Unknown if !force => outcomes.push(Outcome {
                    text: format!("{}: in use; --force puts it back nevertheless", record.name()),
                    failed: false,
                    in_use: true,
                }),
                // No process and no group survives a reboot.
                State::OtherBoot => {
                    fs::remove_file(&path).map_err(|error| self.error(error))?;
                }
                _ => outcomes.push(settle(&path, &record)),
            }
        }
        self.0.remove_unfinished();
        Ok(outcomes)
    }

    fn all(&self) -> Result<Contents, CoresError> {
        let entries = match fs::read_dir(self.0.path()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Contents::default());
            }
            Err(error) => return Err(self.error(error)),
        };
        let mut all = Contents::default();
        for entry in entries {
            let path = entry.map_err(|error| self.error(error))?.path();
            if path.extension().is_some_and(|suffix| suffix == "json") {
                match load(&path) {
                    Ok(record) => all.records.push((path, record)),
                    // The record was released a moment ago.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => all.unreadable.push((path, error)),
                }
            }
        }
        Ok(all)
    }

    fn error(&self, source: io::Error) -> CoresError {
        SettingsJournalError::File { path: self.0.path().to_owned(), source }.into()
    }
}

impl Record {
    fn name(&self) -> String {
        format!("cores of process {} ({})", self.target.pid, self.hold.describe())
    }
}

impl Claim {
    /// Writes the record again.
    ///
    /// # Errors
    /// The errors of the file system.
    pub fn save(&self) -> Result<(), CoresError> {
        save(&self.record, &self.path).map_err(|error| self.records.error(error))
    }

    /// Puts everything back and forgets the target. Returns what could not be put back exactly.
    ///
    /// # Errors
    /// [`CoresError`]; the record stays, so that `numapilot restore` can try again.
    pub fn release(self) -> Result<Notes, CoresError> {
        let notes = self.record.hold.put_back()?;
        match fs::remove_file(&self.path) {
            // `restore --force` was here before us.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.records.error(error)),
            _ => Ok(notes),
        }
    }
}

fn settle(path: &Path, record: &Record) -> Outcome {
    let name = record.name();
    let removed = |notes| match fs::remove_file(path) {
        Ok(()) => Ok(notes),
        Err(error) => Err(format!("{}: {error}", path.display())),
    };
    let (text, failed) =
        match record.hold.put_back().map_err(|error| chain(&error)).and_then(removed) {
            Ok(notes) if notes.is_empty() => (format!("{name}: put back"), false),
            Ok(notes) => (format!("{name}: {}", notes.join("; ")), false),
            Err(error) => (format!("{name}: not put back: {error}"), true),
        };
    Outcome { text, failed, in_use: false }
}

fn damaged(path: &Path, error: &io::Error) -> String {
    format!(
        "{} is not a record of numapilot cores ({error}) and is left out: what it was to put back is \
         not known; remove the file",
        path.display()
    )
}

fn number(pid: i32) -> Option<u32> {
    u32::try_from(pid).ok()
}

/// Whether a target descends from a process.
fn below(target: &Owner, root: i32) -> bool {
    let pid = i32::try_from(target.pid).unwrap_or_default();
    ancestors(pid).contains(&root)
}
