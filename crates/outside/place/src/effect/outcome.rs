//! The outcome of each setting in the form in which it is kept in files and printed as JSON.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Effect, Seen};
use crate::Note;

/// Whether a setting took effect. The names are those in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is in effect.
    InEffect,
    /// It is not.
    NotInEffect,
    /// It could not be checked.
    Unknown,
    /// There is nothing to which it applies.
    NotApplicable,
}

/// One setting. The fields are documented in docs/src/json.md.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The user's name of the setting.
    pub setting: String,
    /// Whether it took effect.
    pub state: State,
    /// The evidence, if it did.
    pub seen: Option<String>,
    /// The cause, if it did not, or if that is unknown.
    pub cause: Option<String>,
    /// The remedy, if it did not.
    pub remedy: Option<String>,
}

/// The setting that stands for the whole plan.
const PLAN: &str = "plan";

impl Outcome {
    /// The whole plan, of a run that failed with this error.
    #[must_use]
    pub fn failed(error: String) -> Self {
        let state = State::NotInEffect;
        Self { setting: PLAN.to_owned(), state, seen: None, cause: Some(error), remedy: None }
    }

    /// Whether it is that of a run that [failed](Self::failed).
    #[must_use]
    pub fn is_of_failed_run(&self) -> bool {
        self.setting == PLAN && self.state == State::NotInEffect
    }
}

/// `memory bind 0: in effect (bind:0)`.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::InEffect => "in effect",
            State::NotInEffect => "not in effect",
            State::Unknown => "could not be checked",
            State::NotApplicable => "not applicable",
        };
        write!(f, "{}: {state}", self.setting)?;
        if let Some(seen) = &self.seen {
            write!(f, " ({seen})")?;
        }
        self.cause.iter().try_for_each(|cause| write!(f, ": {cause}"))?;
        self.remedy.iter().try_for_each(|remedy| write!(f, "; {remedy}"))
    }
}

impl From<Seen> for Outcome {
    fn from(seen: Seen) -> Self {
        let (state, evidence, cause, remedy) = match seen.effect {
            Effect::InEffect { seen } => (State::InEffect, Some(seen), None, None),
            Effect::NotInEffect { cause, remedy } => {
                (State::NotInEffect, None, Some(cause), Some(remedy))
            }
            Effect::Unseen { cause } => (State::Unknown, None, Some(cause), None),
            Effect::NotApplicable { cause } => (State::NotApplicable, None, Some(cause), None),
        };
        Self { setting: seen.setting, state, seen: evidence, cause, remedy }
    }
}

/// A setting that cannot be made.
impl From<Note> for Outcome {
    fn from(note: Note) -> Self {
        Self {
            setting: note.subject,
            state: State::NotInEffect,
            seen: None,
            cause: Some(note.cause),
            remedy: Some(note.remedy),
        }
    }
}
