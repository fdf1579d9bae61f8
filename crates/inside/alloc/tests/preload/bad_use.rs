//! Invalid programs: each ends by SIGABRT with one line that contains the pointer and the cause.

use std::os::unix::process::ExitStatusExt;

use crate::harness::Subject;

const SIGABRT: i32 = 6;

/// The program prints the pointer; the library must print the same one.
fn aborts(case: &str, cause: &str) {
    let subject = Subject::preloaded();
    let mut command = subject.command(&subject.compile("bad_use.c"));
    if case.starts_with("hardened_") {
        command.env("NUMAPILOT_ALLOC_HARDEN", "1");
    }
    let output = command.arg(case).output().unwrap();
    let pointer = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.signal(), Some(SIGABRT), "{case}: {:?} {message}", output.status);
    assert!(message.starts_with("numapilot: "), "{case}: {message}");
    assert!(message.contains(&pointer), "{case}: {pointer} is not named: {message}");
    assert!(message.contains(cause), "{case}: {message}");
    assert_eq!(message.lines().count(), 1, "{case}: {message}");
}

macro_rules! aborts {
    ($($case:ident: $cause:ident)+) => {
        $(#[test]
        fn $case() {
            aborts(stringify!($case), $cause);
        })+

        #[test]
        fn every_case_is_run() {
            let listed = [$(stringify!($case)),+];
            assert_eq!(Subject::preloaded().cases("bad_use.c"), listed);
        }
    };
}

const FOREIGN: &str = "it is not from this allocator";
const MISALIGNED: &str = "it is not at a multiple of 16, where every object starts";
const NO_BLOCK: &str = "no block starts there: it was freed before, or it points into one";
const INSIDE: &str = "it points into an object, not to its start";
const BEFORE: &str = "it was freed before";
const TWICE: &str = "it was freed just before";

aborts! {
    free_of_static_memory: FOREIGN
    free_of_stack_memory: FOREIGN
    free_of_mapped_memory: FOREIGN
    free_of_a_small_number: FOREIGN
    free_of_kernel_address: FOREIGN
    free_inside_a_small_block: MISALIGNED
    free_inside_a_large_block: NO_BLOCK
    free_of_a_misaligned_pointer: MISALIGNED
    double_free_of_a_small_block: TWICE
    double_free_by_another_thread: TWICE
    double_free_of_a_medium_block: NO_BLOCK
    double_free_of_a_large_block: NO_BLOCK
    realloc_of_a_foreign_pointer: FOREIGN
    realloc_of_a_freed_block: NO_BLOCK
    usable_size_of_a_foreign_pointer: FOREIGN
    hardened_free_inside_a_small_block: INSIDE
    hardened_double_free_of_an_older_block: BEFORE
}
