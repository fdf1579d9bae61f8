//! Tests under filters of system calls, as in containers.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{NUMAPILOT, compile, err};

/// Runs its arguments under a filter that answers CALL (with FIRST as its first argument, if given)
/// with ANSWER, as in containers.
const FILTER: &str = r#"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALL, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FIRST, 0, FIRST < 0 ? 0 : 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ANSWER),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof *code, code };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 99;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 98;
    execvp(argv[1], argv + 1);
    return 97;
}
"#;

/// Builds the program that runs others under such a filter; -1 as `first` stands for any argument.
fn filter(directory: &Path, call: &str, first: i32, answer: &str) -> Option<PathBuf> {
    let flags =
        [format!("-DCALL={call}"), format!("-DFIRST={first}"), format!("-DANSWER={answer}")];
    compile(directory, FILTER, &flags.each_ref().map(String::as_str))
}

#[test]
fn a_filter_that_refuses_policies_is_named_and_the_rest_is_done() {
    let directory = tempfile::tempdir().unwrap();
    let Some(filter) = filter(directory.path(), "SYS_set_mempolicy", -1, "EPERM") else { return };
    let filtered = |options: &[&str]| {
        Command::new(&filter).args([NUMAPILOT, "run"]).args(options).output().unwrap()
    };
    let output = filtered(&["-i", "all", "--thp", "never", "grep", "THP", "/proc/self/status"]);
    assert!(err(&output).contains("memory interleave: set_mempolicy is not permitted"));
    assert!(err(&output).contains("seccomp"));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "THP_enabled:\t0\n");
    let strict = filtered(&["--strict", "-i", "all", "true"]);
    assert_eq!(strict.status.code(), Some(125), "{}", err(&strict));
}

#[test]
fn a_filter_that_refuses_affinity_is_named_and_the_program_runs() {
    let directory = tempfile::tempdir().unwrap();
    let call = "SYS_sched_setaffinity";
    let Some(filter) = filter(directory.path(), call, -1, "EPERM") else { return };
    let filtered = |options: &[&str]| {
        Command::new(&filter).args([NUMAPILOT, "run"]).args(options).output().unwrap()
    };
    let output = filtered(&["-C", "+0", "echo", "ran"]);
    assert_eq!(output.stdout, b"ran\n", "{}", err(&output));
    let stderr = err(&output);
    assert!(stderr.contains("sched_setaffinity is not permitted") && stderr.contains("seccomp"));
    assert!(stderr.contains("allow sched_setaffinity"), "{stderr}");
    assert_eq!(filtered(&["--strict", "-C", "+0", "true"]).status.code(), Some(125));
}

/// Whether the machine has huge pages that can be switched off.
fn has_huge_pages() -> bool {
    use numapilot_place::huge_pages::{Choice, Switches};
    let on = Switches::read(Path::new("/")).is_some_and(|s| s.most() != Choice::Never);
    if !on {
        println!("skipped: no huge pages here");
    }
    on
}

#[test]
fn a_page_switch_that_is_refused_or_does_nothing_is_reported() {
    // PR_SET_THP_DISABLE; an answer of 0 pretends that it was set.
    for (answer, message) in [
        ("EPERM", "refused (Operation not permitted"),
        ("ENOSYS", "refused (Function not implemented"),
        ("EINVAL", "refused (Invalid argument"),
        ("0", "accepted but has no effect"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let Some(filter) = filter(directory.path(), "SYS_prctl", 41, answer) else { return };
        if !has_huge_pages() {
            return;
        }
        let filtered = |options: &[&str]| {
            Command::new(&filter).args([NUMAPILOT, "run"]).args(options).output().unwrap()
        };
        let output = filtered(&["--thp", "never", "grep", "THP", "/proc/self/status"]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "THP_enabled:\t1\n");
        let text = err(&output);
        assert!(text.contains("thp never: ") && text.contains(message), "{answer}: {text}");
        let strict = filtered(&["--strict", "--thp", "never", "true"]);
        assert_eq!(strict.status.code(), Some(125), "{answer}: {}", err(&strict));
    }
}
