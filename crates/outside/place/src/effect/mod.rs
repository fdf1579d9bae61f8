//! Whether a plan is in effect in the running program. Every setting is read back where its effect
//! is visible, in all processes of the run.
//!
//! ```text
//!  Prepared --expected()--> Expected: the settings that should be visible
//!                              |
//!  Observer::start(pid) -------+-- inspects each process of the run, soon after the start
//!        |                         and from time to time (process/)
//!        '-- finish()          Vec<Seen>: one for each setting (tally.rs)
//! ```
//!
//! | setting    | where its effect is visible                                               |
//! |------------|---------------------------------------------------------------------------|
//! | memory     | `numa_maps`: the policy of a mapping without its own policy               |
//! | CPUs       | the affinity of every thread                                              |
//! | threads    | the same: each thread has its own CPU                                     |
//! | allocator  | `maps`: the library is mapped, the program has no other malloc, and it    |
//! |            | or one of its libraries imports malloc                                    |
//! | thp        | `status`: `THP_enabled`; `smaps_rollup`: `AnonHugePages`                  |
//! | AutoNUMA   | kernel.numa_balancing, and the flags of the policy                        |
//!
//! If a process ended before it could be inspected, its settings count as unknown, never as without
//! effect.

mod expected;
mod observer;
mod outcome;
mod process;
mod tally;

use std::fmt;

pub use expected::Expected;
pub(crate) use expected::{Item, Policy};
pub use observer::Observer;
pub use outcome::{Outcome, State};

use crate::{Note, daemons};

/// Whether a setting is in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is in effect.
    InEffect {
        /// The evidence.
        seen: String,
    },
    /// It is not in effect.
    NotInEffect {
        /// The cause, with the program.
        cause: String,
        /// The remedy.
        remedy: String,
    },
    /// Unknown.
    Unseen {
        /// The cause.
        cause: String,
    },
    /// The program has nothing to which the setting applies.
    NotApplicable {
        /// The cause.
        cause: String,
    },
}

/// A setting of a plan, and its effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The user's name of the setting: `memory bind 0`, `allocator jemalloc`.
    pub setting: String,
    /// Its effect.
    pub effect: Effect,
    /// Whether every other allocator would fail for the same reason.
    pub is_of_program: bool,
}

/// A daemon that ran beside the program.
impl From<daemons::Outcome> for Seen {
    fn from(outcome: daemons::Outcome) -> Self {
        let effect = match (outcome.note(), &outcome.state) {
            (Some(note), _) => Effect::NotInEffect { cause: note.cause, remedy: note.remedy },
            (None, daemons::State::Ran(seen)) => Effect::InEffect { seen: seen.clone() },
            (None, _) => Effect::Unseen { cause: daemons::TOO_SHORT.to_owned() },
        };
        Self { setting: outcome.setting(), effect, is_of_program: false }
    }
}

impl Seen {
    /// The note for the user about a setting without effect.
    #[must_use]
    pub fn note(&self) -> Option<Note> {
        match &self.effect {
            Effect::NotInEffect { cause, remedy } => {
                Some(Note::new(&self.setting, format!("not in effect: {cause}"), remedy))
            }
            _ => None,
        }
    }
}

/// `memory bind 0: in effect (bind:0 in 2 processes)`.
impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let setting = &self.setting;
        match &self.effect {
            Effect::InEffect { seen } => write!(f, "{setting}: in effect ({seen})"),
            Effect::NotInEffect { cause, .. } => write!(f, "{setting}: not in effect: {cause}"),
            Effect::Unseen { cause } => write!(f, "{setting}: could not be checked: {cause}"),
            Effect::NotApplicable { cause } => write!(f, "{setting}: not applicable: {cause}"),
        }
    }
}
