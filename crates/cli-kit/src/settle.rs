//! Runs before a verb: puts back what killed runs have left, and reports what live ones hold.

use std::sync::{Mutex, PoisonError};

use numapilot_cores::Records;
use numapilot_place::settings_journal::{Done, Holder, Outcome, SettingsJournal};
use numapilot_place::{ancestors, chain, guard};
use serde::Serialize;

use crate::terminal::Terminal;

/// The checks before a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settle {
    /// Put back what killed runs have left.
    Dead,
    /// In addition, tell the user what another run holds: measurements meanwhile are not of the
    /// machine's own settings.
    Measuring,
}

impl Settle {
    /// Does the checks. Prints nothing if there was nothing to do; no failure stops the verb.
    pub fn before(self, terminal: &Terminal) {
        let settled = put_back();
        if !settled.done.is_empty() {
            let done = settled.done.join("; ");
            terminal.say(format_args!("put back what a killed run left: {done}"));
        }
        if !settled.failed.is_empty() {
            terminal.warn(format_args!(
                "what a killed run left is still there: {}; put it back with numapilot restore, \
                 as the user of that run",
                settled.failed.join("; ")
            ));
        }
        if self == Self::Measuring {
            held_settings(terminal);
        }
    }
}

/// The result of putting back, for people.
#[derive(Debug, Default)]
pub struct Settled {
    done: Vec<String>,
    failed: Vec<String>,
}

/// Puts back what killed runs have left: programs first, because they may use the rest, then
/// settings, CPUs and files.
pub fn put_back() -> Settled {
    let mut settled = Settled { done: guard::end_stale_groups(), failed: Vec::new() };
    // Without a place for a journal, this user has left nothing.
    if let Ok(journal) = SettingsJournal::system() {
        match journal.restore(false) {
            Ok(outcomes) => settled.settings(&outcomes),
            Err(error) => settled.failed.push(chain(&error)),
        }
    }
    if let Ok(records) = Records::system() {
        match records.restore(false) {
            Ok(outcomes) => {
                for outcome in outcomes.into_iter().filter(|o| !o.in_use) {
                    let list = if outcome.failed { &mut settled.failed } else { &mut settled.done };
                    list.push(outcome.text);
                }
            }
            Err(error) => settled.failed.push(chain(&error)),
        }
    }
    numapilot_place::remove_stale_files();
    settled
}

impl Settled {
    fn settings(&mut self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            match outcome.done {
                Done::Restored { .. } | Done::ChangedByOthers { .. } => {
                    self.done.push(outcome.to_string());
                }
                Done::Failed(_) => self.failed.push(outcome.to_string()),
                Done::Already(_) | Done::InUse | Done::HeldByOthers => {}
            }
        }
    }
}

/// Settings that other runs were found to hold since the verb began.
static HELD: Mutex<Vec<Holder>> = Mutex::new(Vec::new());

/// Settings that other runs hold, or were found to hold since the verb began; each is reported
/// once.
pub fn held_settings(terminal: &Terminal) -> Vec<Holder> {
    // The list is valid even if a thread that used it panicked.
    let mut known = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    for holder in holders() {
        if !known.contains(&holder) {
            terminal.warn(format_args!(
                "{holder}: what is read or measured now is not the machine's own; wait for its end"
            ));
            known.push(holder);
        }
    }
    known.clone()
}

/// Settings that other runs hold, except runs that this process belongs to: those were asked for.
pub fn holders() -> Vec<Holder> {
    // Without a place for a journal, no other journal is visible.
    let mut holders =
        SettingsJournal::system().and_then(|journal| journal.holders()).unwrap_or_default();
    if !holders.is_empty() {
        let ancestors = ancestors(std::process::id().cast_signed());
        holders.retain(|holder| !ancestors.contains(&holder.pid.cast_signed()));
    }
    holders
}

/// A result for programs, with the settings that other runs held while it was measured.
#[derive(Serialize)]
pub struct Measured<T> {
    #[serde(flatten)]
    result: T,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    held_settings: Vec<Holder>,
}

impl<T> Measured<T> {
    /// Also checks for settings that are held at the end.
    pub fn new(terminal: &Terminal, result: T) -> Self {
        Self { result, held_settings: held_settings(terminal) }
    }
}
