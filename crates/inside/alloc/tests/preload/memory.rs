//! Memory that is no longer used goes back to the system.

crate::harness::cases! { "memory.c":
    small_blocks_with_a_little_activity medium_blocks_with_a_little_activity
    large_blocks_with_a_little_activity huge_blocks_with_a_little_activity
    small_blocks_without_activity large_blocks_without_activity one_in_4096_kept
    a_plateau_not_a_slope
}
