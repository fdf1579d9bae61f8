//! Mappings of the process: the allocator adds a bounded number, whatever the program does, and
//! core files do not contain those that are only reserved.

use crate::harness::Subject;

crate::harness::cases! { "mappings.c":
    many_growing_blocks freed_blocks_are_merged children_of_a_fork threads_with_growing_blocks
    large_and_small_in_turns many_blocks a_long_block_is_moved
    reserved_memory_is_not_in_core_files
}

/// The guard page of each block is a mapping.
#[test]
fn with_guards() {
    let subject = Subject::preloaded();
    for case in ["many_blocks", "freed_blocks_are_merged"] {
        let mut command = subject.command(&subject.compile("mappings.c"));
        let output = command.env("NUMAPILOT_ALLOC_HARDEN", "1").arg(case).output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{case}: {:?} {stdout}", output.status);
    }
}
