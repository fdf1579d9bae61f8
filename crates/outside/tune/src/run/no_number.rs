//! Reasons why the output of a run gives no figure.

use thiserror::Error;

use super::number::NumberError;

/// Why a text gives no figure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoNumber {
    /// Nothing matches.
    #[error("the output has no figure")]
    NoMatch,
    /// The match cannot be read.
    #[error("the output's figure '{matched}': {why}")]
    Unreadable {
        /// The match, as printed.
        matched: String,
        /// The cause.
        why: NumberError,
    },
    /// The group matches only a part of a number.
    #[error("'{matched}' is only a part of '{whole}'; {}", remedy(group.as_deref()))]
    Cut {
        /// The match.
        matched: String,
        /// The whole number.
        whole: String,
        /// A group that matches all of it, if such a number can be read.
        group: Option<String>,
    },
    /// The figure cannot be computed with.
    #[error("the output's figure '{0}' is too large; have the program print a larger unit")]
    TooLarge(String),
    /// The figure has no logarithm.
    #[error("the output's figure '{0}' is not a number above 0")]
    NotPositive(String),
}

/// The remedy for a group that matches only a part of a number.
fn remedy(group: Option<&str>) -> String {
    group.map_or_else(
        || {
            "a number with several units cannot be read: have the program print one unit, or compare wall \
             time"
                .to_owned()
        },
        |group| {
            format!(
                "match all of it with a group such as {group}, or, if it is several numbers, \
                 have the expression match what separates them, outside the group"
            )
        },
    )
}
