//! Limits that the program sets while it has blocks, and blocks in the children of a fork.

use crate::harness::Subject;

const SOURCE: &str = "limits.c";

#[test]
fn plainly() {
    Subject::preloaded().all_hold(SOURCE, &["ends_stay_guarded"]);
}

#[test]
fn with_guards() {
    Subject::preloaded().all_hold_with(SOURCE, &[], &[("NUMAPILOT_ALLOC_HARDEN", "1")]);
}
