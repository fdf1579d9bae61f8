//! What a plan asked for and could not get: never silent, never fatal unless `strict`.

use std::fmt;

use serde::Serialize;

/// One thing that could not be done, and what would help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// What the plan asked for: `allocator jemalloc`, `memory weighted-interleave`.
    pub subject: String,
    /// What happens instead, and why.
    pub cause: String,
    /// What the user can do about it.
    pub remedy: String,
}

impl Note {
    /// A note of its three parts.
    pub fn new(
        subject: impl Into<String>,
        cause: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { subject: subject.into(), cause: cause.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.subject, self.cause, self.remedy)
    }
}
