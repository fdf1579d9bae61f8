//! Defects of the paper's published code, one test each. Those that concern a single function of
//! the C library are in the conformance table. Those that need more than one node are for a machine
//! that has them.

crate::harness::cases! { "published.c":
    pthread_create_does_not_recurse thread_attributes_are_kept two_thousand_threads_at_once
    detached_threads_leave_nothing realloc_grows_in_place fork_with_busy_threads
    fork_during_the_first_allocation children_own_their_memory large_blocks_of_many_threads
    classes_fit little_is_lost untouched_memory_stays_untouched untouched_objects_stay_untouched
    affinity_is_left_alone
}
