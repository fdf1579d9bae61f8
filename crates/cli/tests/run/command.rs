//! Tests of the command line: what is passed on, what is refused, and what is printed instead of
//! run.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use insta::assert_snapshot;

use crate::{NUMAPILOT, err, failure, out, own_allocator, run};

#[test]
fn the_status_is_the_programs() {
    let code = |arguments: &[&str]| run(arguments).status.code();
    for verbose in [&[][..], &["--verbose"]] {
        let with = |rest: &[&'static str]| [verbose, rest].concat();
        assert_eq!(code(&with(&["true"])), Some(0));
        assert_eq!(code(&with(&["--", "sh", "-c", "exit 3"])), Some(3));
        assert_eq!(code(&with(&["no-such-program-here"])), Some(127));
        assert_eq!(code(&with(&["/no/such/program"])), Some(127));
        assert_eq!(code(&with(&["/etc/passwd"])), Some(126));
        assert_eq!(code(&with(&["/etc"])), Some(126));
    }
    // Supervised: 128+n. Otherwise numapilot became the program, which was killed.
    assert_eq!(code(&["--verbose", "sh", "-c", "kill -TERM $$"]), Some(128 + 15));
    assert_eq!(run(&["sh", "-c", "kill -TERM $$"]).status.signal(), Some(15));
}

#[test]
fn options_after_the_command_belong_to_it() {
    assert_eq!(out(&["echo", "-i", "--help", "--", "x"]), "-i --help -- x\n");
    assert_eq!(out(&["-l", "--", "echo", "-l"]), "-l\n");
    assert!(failure(&["--alocator", "x", "true"]).contains("--allocator"));
    assert!(failure(&[]).contains("<COMMAND>"));
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_runs() {
    let touched = tempfile::tempdir().unwrap();
    let file = touched.path().join("ran");
    let refused = |options: &[&str], expected: &str| {
        let stderr = failure(&[options, &["touch", file.to_str().unwrap()]].concat());
        assert!(stderr.contains(expected), "{options:?}: {stderr}");
        assert!(!file.exists());
    };
    refused(&["-i", "9999"], "node 9999 is not on this machine, which has node");
    refused(&["-i", "x"], "bad node string");
    for policy in ["-i", "-w", "-m", "-p", "-P"] {
        refused(&[policy, ""], "a value is required");
    }
    refused(&["-N", ""], "selects nothing");
    refused(&["-i", "same"], "another option");
    refused(&["-m", "netdev:none0"], "/sys/class/net/none0 does not exist");
    refused(&["-m", "!all"], "selects nothing on this machine");
    refused(&["-C", "60000"], "CPU 60000 is not on this machine");
    refused(&["-i", "0", "-m", "0"], "cannot be used with");
    refused(&["-l", "-P", "0"], "cannot be used with");
    refused(&["-m", "0", "-b", "--numa-balancing", "off"], "contradict");
    refused(&["--thp", "sometimes"], "inherit, always, never");
    refused(&["--allocator", "nomalloc"], "known are jemalloc");
    refused(&["--allocator", ""], "unknown allocator ''; known are jemalloc");
    refused(&["--allocator", "/nonexistent.so"], "give the path of a shared library");
    refused(&["--allocator", "/etc/passwd"], "not an ELF file");
    refused(&["--allocator", "scalloc"], "looked for libscalloc.so in");
    refused(&["--per-node", "-i", "0"], "`interleave` would take that of others");
    refused(&["--per-node", "-C", "0"], "leave out -N and -C");
    refused(&["--profile", "/nonexistent.toml"], "/nonexistent.toml");
}

#[test]
fn a_dry_run_prints_the_line_and_runs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("liballoc.so");
    fs::copy(own_allocator(), &library).unwrap();
    let line = |options: &[&str]| {
        let all = [&["--dry-run"], options, &["--", "prog", "a b", "$x", "it's"]].concat();
        out(&all).replace(directory.path().to_str().unwrap(), "/lib")
    };
    assert_snapshot!(line(&[]), @r"prog 'a b' '$x' 'it'\''s'");
    assert_snapshot!(line(&["-C", "0"]), @r"taskset -c 0 prog 'a b' '$x' 'it'\''s'");
    assert_snapshot!(
        line(&["-i", "0", "-N", "0", "-C", "0", "--env", "A=b c"]),
        @r"numactl --physcpubind=0 --interleave=0 env 'A=b c' prog 'a b' '$x' 'it'\''s'"
    );
    assert_snapshot!(
        line(&["--numa-balancing", "off", "--allocator", library.to_str().unwrap()]),
        @r"numactl --localalloc env LD_PRELOAD=/lib/liballoc.so prog 'a b' '$x' 'it'\''s'"
    );
    assert_snapshot!(line(&["--thp", "never"]), @r"
    # before it starts: prctl(PR_SET_THP_DISABLE, 1)
    prog 'a b' '$x' 'it'\''s'
    ");
    // This also works for a program that does not exist.
    assert!(line(&["--threads", "sparse"]).contains(" NUMAPILOT_BIND_CPUS="));
}

#[test]
fn bytes_that_are_no_text_reach_the_program_and_the_printed_line() {
    let raw = |text: &[u8]| OsStr::from_bytes(text).to_owned();
    let run = |arguments: &[OsString]| {
        let output = Command::new(NUMAPILOT).arg("run").args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", err(&output));
        output.stdout
    };
    let plain = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let variable = [plain(&["--env"]), vec![raw(b"A=\xff")]].concat();
    let seen = run(&[variable.clone(), plain(&["sh", "-c", "printf %s \"$A\""])].concat());
    assert_eq!(seen, b"\xff");
    let line =
        run(&[plain(&["--dry-run"]), variable, plain(&["cat"]), vec![raw(b"a\xff")]].concat());
    assert_eq!(String::from_utf8(line).unwrap(), "env $'A=\\xff' cat $'a\\xff'\n");
}

/// Output without colours is stripped of escape sequences, and these are the user's.
#[test]
fn a_dry_run_keeps_escape_sequences_of_the_data() {
    let value = "a\x1b[31mb\x07\u{7f}";
    let line = out(&["--dry-run", "--env", &format!("A={value}"), "sh", "-c", "printf %s \"$A\""]);
    assert!(!line.trim_end().contains(char::is_control), "{line:?}");
    assert!(line.contains("A=a\\x1b[31mb\\x07\\x7f"), "{line}");
    let run = Command::new("bash").args(["-c", &line]).output().unwrap();
    assert_eq!(String::from_utf8(run.stdout).unwrap(), value);
}

/// Text from elsewhere does not steer the user's terminal.
#[test]
fn foreign_text_is_shown_and_not_sent() {
    let output = Command::new(env!("CARGO_BIN_EXE_numapilot"))
        .args(["run", "-v", "--env", "TITLE=\x1b]0;x\x07", "--", "true"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && text.contains(r"TITLE=\x1b]0;x\x07"), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
}

/// The cause is named, and the remedy is one for this cause.
#[test]
fn remedies_follow_from_the_causes() {
    let error = |script: &str| {
        let output = Command::new("bash").args(["-c", script, NUMAPILOT]).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{script}: {stderr}");
        stderr
    };
    let stderr = error("ulimit -n 4; exec \"$0\" topo");
    assert!(stderr.contains("ulimit -n") && !stderr.contains("permissions"), "{stderr}");
    let stderr = error(
        "d=$(mktemp -d); cd \"$d\" && rmdir \"$d\"; exec \"$0\" run --via 'env {}' --dry-run true",
    );
    assert!(stderr.contains("the working directory cannot be used"), "{stderr}");
    for verb in ["balance replay", "cores simulate --trace", "fleet report", "profile show"] {
        let stderr = error(&format!("exec \"$0\" {verb} /nosuch"));
        assert!(stderr.contains("cannot read ") && stderr.contains("check the path"), "{stderr}");
    }
    // No line but the first looks like a message.
    let stderr = error("exec \"$0\" run --allocator $'a\\nb' true");
    assert!(stderr.lines().skip(1).all(|line| line.starts_with("  ")), "{stderr}");
    let stderr = error("exec \"$0\" run --attest /proc/nosuch true");
    assert!(stderr.contains("make the directory"), "{stderr}");
    let stderr = error("exec \"$0\" run --attest /sys true");
    assert!(stderr.contains("a directory that you can write"), "{stderr}");
}

#[test]
fn a_stack_that_is_too_small_is_reported() {
    let script = format!("ulimit -s 64 && exec {NUMAPILOT} run true");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", err(&output));
    assert!(
        err(&output).contains("the stack is limited to 64 KiB (ulimit -s)"),
        "{}",
        err(&output)
    );
}
