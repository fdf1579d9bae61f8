//! What a plan has done to the running program: every setting is read back where its effect
//! shows, in all processes of the run.
//!
//! ```text
//!  Prepared --expected()--> Expected: what should be seen
//!                              |
//!  Observer::start(pid) -------+-- looks at each process of the run, soon after the start
//!        |                         and from time to time (process.rs)
//!        '-- finish()          Vec<Seen>: one for each setting (tally.rs)
//! ```
//!
//! | setting    | where its effect shows                                                    |
//! |------------|---------------------------------------------------------------------------|
//! | memory     | `numa_maps`: the policy of a mapping that has none of its own             |
//! | CPUs       | the affinity of every thread                                              |
//! | threads    | the same: threads have CPUs of their own                                  |
//! | allocator  | `maps`: the library is there, the program has no other malloc, and it     |
//! |            | or a library of it imports one                                            |
//! | thp        | `status`: `THP_enabled`; `smaps_rollup`: `AnonHugePages`                  |
//! | AutoNUMA   | kernel.numa_balancing, and the flags of the policy                        |
//!
//! A process that ended before it could be looked at tells nothing: its settings count as
//! unknown, never as without effect.

mod expected;
mod observer;
mod process;
mod tally;

use std::fmt;

pub use expected::Expected;
pub(crate) use expected::{Item, Policy};
pub use observer::Observer;

use crate::Note;

/// Whether a setting has taken effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It has.
    InEffect {
        /// What was seen.
        seen: String,
    },
    /// It has not.
    NotInEffect {
        /// Why, and in which program.
        cause: String,
        /// What helps.
        remedy: String,
    },
    /// Nobody can say.
    Unseen {
        /// Why.
        cause: String,
    },
    /// The program has nothing that the setting could act on.
    NotApplicable {
        /// Why.
        cause: String,
    },
}

/// A setting of a plan, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// As the user knows it: `memory bind 0`, `allocator jemalloc`.
    pub setting: String,
    /// What became of it.
    pub effect: Effect,
    /// Whether every choice of an allocator would fail for the same reason.
    pub is_of_program: bool,
}

impl Seen {
    /// What to tell a user whose setting has no effect.
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
            Effect::Unseen { cause } => write!(f, "{setting}: could not be seen: {cause}"),
            Effect::NotApplicable { cause } => write!(f, "{setting}: not applicable: {cause}"),
        }
    }
}
