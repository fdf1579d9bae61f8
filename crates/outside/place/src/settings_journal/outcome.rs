//! The outcome for a setting after the run that changed it.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use super::Setting;
use super::entry::Changed;

/// The outcome for one setting of a finished run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The setting, or `None` for an entry that cannot be read.
    pub setting: Option<Setting>,
    /// The run that changed it.
    pub run: String,
    /// The action.
    pub done: Done,
}

/// The action for a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Done {
    /// The original value was written.
    Restored {
        /// The value before.
        from: String,
        /// The original value.
        to: String,
    },
    /// It already had its original value.
    Already(String),
    /// It had neither the run's value nor the original one, so another program has changed it. It
    /// was left unchanged.
    ChangedByOthers {
        /// Value of the run.
        held: String,
        /// Value now.
        now: String,
        /// Value before the run.
        original: String,
    },
    /// Its owner is alive.
    InUse,
    /// Another run still holds it and will put it back.
    HeldByOthers,
    /// It could not be restored.
    Failed(String),
}

/// Restores a setting that no other run holds.
pub(super) fn put_back(change: &Changed, root: &Path) -> Done {
    let now = match change.setting.read(root) {
        Ok(now) => now,
        Err(error) => return Done::Failed(error.to_string()),
    };
    if now == change.original {
        return Done::Already(now);
    }
    if now != change.held {
        return Done::ChangedByOthers {
            held: change.held.clone(),
            now,
            original: change.original.clone(),
        };
    }
    match change.setting.write(root, &change.original) {
        Ok(()) => Done::Restored { from: now, to: change.original.clone() },
        Err(error) => Done::Failed(error.to_string()),
    }
}

impl Outcome {
    /// Whether the user should be informed at the end of a run: everything but success.
    #[must_use]
    pub fn is_trouble(&self) -> bool {
        matches!(self.done, Done::ChangedByOthers { .. } | Done::Failed(_))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(setting) = self.setting {
            write!(f, "{setting}: ")?;
        }
        match &self.done {
            Done::Restored { from, to } => write!(f, "put back from {from} to {to}")?,
            Done::Already(value) => write!(f, "is {value} again already")?,
            Done::ChangedByOthers { held, now, original } => write!(
                f,
                "left at {now}: it was {original} before and {held} during the run, and another \
                 program has changed it since"
            )?,
            Done::InUse => write!(f, "in use; --force puts it back nevertheless")?,
            Done::HeldByOthers => write!(f, "still held by another run, which will put it back")?,
            Done::Failed(cause) => write!(f, "not put back: {cause}")?,
        }
        write!(f, " ({})", self.run)
    }
}
