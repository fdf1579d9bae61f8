//! The thread that returns memory: it runs when it is needed, and the program does not notice it.

use crate::harness::Subject;

const SOURCE: &str = "background.c";

crate::harness::cases! { "background.c":
    memory_returns_while_idle what_returned_to_an_idle_thread all_signals_are_blocked_in_it
    it_has_no_capabilities no_wait_sees_it signals_come_to_the_program it_works_again_after_fork the_user_changes
    files_are_the_programs
}

#[test]
fn the_optimised_library() {
    Subject::optimised().all_hold(SOURCE, &[]);
}

/// The thread that responds to that signal is hidden from the program, too.
#[test]
fn statistics_on_a_signal() {
    let variables = [("NUMAPILOT_ALLOC_STATS_SIGNAL", "12")];
    Subject::preloaded().all_hold_with(SOURCE, &[], &variables);
}
