//! Memory that is no longer used goes back to the system.

crate::harness::cases! { "memory.c":
    small_blocks_with_a_little_activity medium_blocks_with_a_little_activity
    large_blocks_with_a_little_activity huge_blocks_with_a_little_activity
    small_blocks_without_activity large_blocks_without_activity classes_that_are_outgrown
    one_in_4096_kept a_plateau_not_a_slope threads_share_huge_pages
}

/// The ablation of the paper's incremental sharing.
#[test]
fn threads_apart() {
    let subject = crate::harness::Subject::preloaded();
    for (source, arguments) in
        [("memory.c", &["threads_share_huge_pages"][..]), ("stress.c", &["6", "2", "8000"])]
    {
        let mut command = subject.command(&subject.compile(source));
        let output = command.env("NUMAPILOT_ALLOC_SHARING", "0").args(arguments).output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{source}: {:?} {stdout}", output.status);
    }
}
