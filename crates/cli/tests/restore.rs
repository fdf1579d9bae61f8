//! Machine-wide settings are put back: at the end, on signals, and after `kill -9`.
//!
//! Each test has a mount namespace of its own in which a plain file stands for the
//! kernel's switch and `/run` is empty, so that the machine keeps its settings whatever
//! happens and other runs do not interfere.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::fs;
use std::process::Command;

const NUMAPILOT: &str = env!("CARGO_BIN_EXE_numapilot");
const SWITCH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Runs a script with `$N` = numapilot and `$S` = the switch, set to madvise; its output,
/// or nothing where namespaces are not to be had.
fn in_namespace(script: &str) -> Option<String> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("switch");
    fs::write(&file, "always [madvise] never\n").unwrap();
    let mounts =
        format!("mount --bind {} $S && mount -t tmpfs none /run || exit 77\n", file.display());
    // Outside of root's namespaces the user becomes root of a new one.
    let attempt = |flags: &str| {
        Command::new("timeout")
            .args(["60", "unshare", flags, "sh", "-c", &format!("{mounts}{script}")])
            .env("N", NUMAPILOT)
            .env("S", SWITCH)
            .output()
    };
    let mut causes = Vec::new();
    for flags in ["-m", "-rm"] {
        match attempt(flags) {
            Ok(output) if output.status.success() => {
                return Some(String::from_utf8(output.stdout).unwrap());
            }
            Ok(output) if matches!(output.status.code(), Some(1 | 77)) => {
                let stderr = String::from_utf8_lossy(&output.stderr);
                causes.push(stderr.lines().next().unwrap_or("no reason given").to_owned());
            }
            Ok(output) => panic!("{output:?}"),
            Err(error) => causes.push(format!("unshare: {error}")),
        }
    }
    println!("skipped: no mount namespaces here ({})", causes.join("; "));
    None
}

/// Starts a run that holds the switch, as `$P`, and waits until it does.
const START: &str = "$N run --thp always -- sleep 600 & P=$!
until [ \"$(cat $S)\" = always ] && [ -n \"$(cat /proc/$P/task/*/children)\" ]; do sleep 0.01; done
C=$(cat /proc/$P/task/*/children)
";

fn check(script: &str, expected: &str) {
    if let Some(text) = in_namespace(script) {
        assert_eq!(text, expected);
    }
}

#[test]
fn a_run_puts_back_at_its_end() {
    check("$N run --thp always -- cat $S; cat $S; ls /run/numapilot", "alwaysmadvise");
}

#[test]
fn a_run_puts_back_on_signals() {
    for (name, status) in [("TERM", 143), ("INT", 130), ("HUP", 129), ("QUIT", 131)] {
        // A shell's background jobs ignore INT and QUIT: the program must not.
        let start = START.replace("$N run", "env --default-signal $N run");
        let script = format!("{start}kill -{name} $P; wait $P; echo $?; cat $S");
        check(&script, &format!("{status}\nmadvise"));
    }
}

#[test]
fn restore_puts_back_what_a_killed_run_left() {
    let script = format!(
        "{START}$N restore; kill -9 $P; wait $P; kill $C; cat $S; echo; $N restore; cat $S; echo; $N restore"
    );
    if let Some(text) = in_namespace(&script) {
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("in use; --force puts it back"), "{text}");
        assert_eq!(lines[1], "always", "{text}");
        assert!(lines[2].contains("put back from always to madvise (run "), "{text}");
        assert_eq!(lines[3..], ["madvise", "nothing to restore"], "{text}");
    }
}

#[test]
fn the_next_run_puts_back_what_a_killed_one_left() {
    let script = format!(
        "{START}kill -9 $P; wait $P; kill $C; $N run --thp always -- true; cat $S; ls /run/numapilot"
    );
    check(&script, "madvise");
}

#[test]
fn the_last_of_two_runs_puts_back() {
    let script = format!(
        "{START}$N run --thp always -- true; cat $S; echo; kill $P; wait $P; cat $S; ls /run/numapilot"
    );
    check(&script, "always\nmadvise");
}

#[test]
fn what_somebody_else_set_meanwhile_stays_and_this_is_said() {
    let script = format!("{START}echo never > $S; kill $P; wait $P; cat $S");
    let script = script.replacen("-- sleep 600", "-- sleep 600 2>/run/said", 1);
    check(&format!("{script}; grep -c 'somebody else' /run/said"), "never\n1\n");
}

#[test]
fn a_program_that_does_not_start_changes_nothing() {
    check("$N run --thp always -- no-such-program 2>/dev/null; echo $?; cat $S", "127\nmadvise");
}
