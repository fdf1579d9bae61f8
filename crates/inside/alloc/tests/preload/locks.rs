//! malloc and free while the C library holds a lock of its own. A free that creates a thread there
//! waits forever.

use crate::harness::Subject;

const SOURCE: &str = "locks.c";

crate::harness::cases! { "locks.c":
    detached_threads_end_together joined_threads_end_together detached_threads_with_large_stacks
    joined_threads_with_large_stacks threads_that_free_stacks_leave_nothing
    threads_end_while_libraries_come_and_go exit_handlers_while_threads_end fork_handlers
    fork_handlers_from_before_all many_keys many_keys_from_before_all the_main_thread_ends_first
    the_environment_changes streams_are_locked a_thread_forks spawned_while_threads_end
    a_child_of_vfork_frees_much
}

#[test]
fn the_optimised_library() {
    Subject::optimised().all_hold(SOURCE, &[]);
}

/// The library then handles a signal of the program, and responds on a thread of its own.
#[test]
fn statistics_on_a_signal() {
    let variables = [("NUMAPILOT_ALLOC_STATS_SIGNAL", "12")];
    Subject::preloaded().all_hold_with(SOURCE, &[], &variables);
}
