//! The outcome of each setting, and its JSON form.

use numapilot_place::Note;
use numapilot_place::effect::{Effect, Seen};
use serde::Serialize;

/// Whether a setting took effect. The names are those in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
