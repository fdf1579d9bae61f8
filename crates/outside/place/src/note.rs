//! Notes about parts of a plan that are impossible. They are always shown, and fatal only under
//! `strict`.

use std::fmt;

use serde::Serialize;

/// A part of a plan that is impossible, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The part of the plan: `allocator jemalloc`, `memory weighted-interleave`.
    pub subject: String,
    /// The cause, and the effect on the program.
    pub cause: String,
    /// The remedy for the user.
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
