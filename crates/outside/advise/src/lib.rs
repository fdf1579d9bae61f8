//! Says from the figures of one run which settings can matter, and by how much at most.
//!
//! ```text
//!  Run --rules--> Finding for each factor --> Advice --> the plan to try first
//!                                                  '--> expectations for a search
//! ```
//!
//! A rule never guesses a figure that was not measured: without it the verdict is
//! [`Verdict::Unknown`], with the reason.
#![forbid(unsafe_code)]

mod advice;
mod finding;
mod rules;
mod run;
mod shares;

pub use advice::{Advice, advise};
pub use finding::{Bound, Expectation, Factor, Figure, Finding, Verdict};
pub use run::{CodeShares, Run};
pub use shares::{AT_LEAST, Share};
