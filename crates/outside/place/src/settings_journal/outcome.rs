//! What becomes of a setting when the run that changed it is over.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use super::Setting;
use super::entry::Changed;

/// What became of one setting of a run that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Which setting; `None` for an entry that cannot be read.
    pub setting: Option<Setting>,
    /// The run that changed it.
    pub run: String,
    /// What was done.
    pub done: Done,
}

/// What was done about a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Done {
    /// Written back.
    Restored {
        /// From.
        from: String,
        /// To.
        to: String,
    },
    /// It had its original value already.
    Already(String),
    /// Neither the run's value nor the original: somebody else's, and left alone.
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
    /// It could not be put back.
    Failed(String),
}

/// Puts a setting back that no other run holds.
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
    /// Whether the user should be told at the end of a run: everything but success.
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
                "left at {now}: it was {original} before, {held} during the run, \
                 and somebody else has changed it since"
            )?,
            Done::InUse => write!(f, "in use; --force puts it back nevertheless")?,
            Done::HeldByOthers => write!(f, "still held by another run, which will put it back")?,
            Done::Failed(cause) => write!(f, "not put back: {cause}")?,
        }
        write!(f, " ({})", self.run)
    }
}
