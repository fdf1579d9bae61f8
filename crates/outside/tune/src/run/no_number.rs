//! Why the output of a run gives no figure.

use thiserror::Error;

use super::number::NumberError;

/// Why a text gives no figure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoNumber {
    /// Nothing matches.
    #[error("the output has no figure")]
    NoMatch,
    /// What matches cannot be read.
    #[error("the output's figure '{matched}': {why}")]
    Unreadable {
        /// As printed.
        matched: String,
        /// Why.
        why: NumberError,
    },
    /// The group matches a part of a number only.
    #[error("'{matched}' is a part of '{whole}' only; {}", remedy(group.as_deref()))]
    Cut {
        /// As matched.
        matched: String,
        /// All of the number.
        whole: String,
        /// A group that matches all of it, where such a number is read.
        group: Option<String>,
    },
    /// No logarithm.
    #[error("the output's figure '{0}' is no number above 0")]
    NotPositive(String),
}

/// What to do about a group that matches a part of a number.
fn remedy(group: Option<&str>) -> String {
    group.map_or_else(
        || {
            "several units in one number are not read: have the program print one, or compare wall \
             time"
                .to_owned()
        },
        |group| {
            format!(
                "match all of it with a group such as {group}, or, where it is several numbers, \
                 have the expression match what separates them, outside the group"
            )
        },
    )
}
