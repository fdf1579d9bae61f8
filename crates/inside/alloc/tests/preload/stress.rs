//! Every function at the same time from many threads, with every block checked whole.

use crate::harness::Subject;

fn stress(subject: &Subject, arguments: &[&str]) {
    let program = subject.compile("stress.c");
    let output = subject.command(&program).args(arguments).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {:?} {stdout} {errors}", output.status);
}

#[test]
fn threads_that_come_and_go() {
    stress(&Subject::preloaded(), &["8", "6", "20000"]);
}

#[test]
fn many_threads() {
    stress(&Subject::preloaded(), &["200", "2", "1500"]);
}

#[test]
fn one_thread_for_long() {
    stress(&Subject::preloaded(), &["1", "1", "200000"]);
}

#[test]
fn the_optimised_library() {
    stress(&Subject::optimised(), &["8", "10", "50000"]);
}

/// `scripts/soak` runs for hours.
#[test]
fn a_short_soak() {
    stress(&Subject::optimised(), &["4", "2", "5000", "4"]);
}
