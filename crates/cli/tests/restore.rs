//! Tests that machine-wide settings are put back: at the end, on signals, and after `kill -9`.
//!
//! Each test has its own mount namespace, in which a plain file stands for the kernel's switch and
//! `/run` and `/dev/shm` are empty. So the machine keeps its settings whatever happens, and other
//! runs do not interfere.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use numapilot_test_kit::mount_namespace_refused;

const NUMAPILOT: &str = env!("CARGO_BIN_EXE_numapilot");
const SWITCH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Runs a script with `$N` = numapilot and `$S` = the switch, set to madvise. Returns its output,
/// or `None` if namespaces are not available.
fn in_namespace(script: &str) -> Option<String> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("switch");
    fs::write(&file, "always [madvise] never\n").unwrap();
    let mounts = format!(
        "mount --bind {} $S && mount -t tmpfs none /run && mount -t tmpfs none /dev/shm || exit\n",
        file.display()
    );
    // Without root, the user becomes root in a new user namespace.
    let attempt = |flags: &str| {
        Command::new("timeout")
            .args(["60", "unshare", flags, "sh", "-c", &format!("{mounts}{GUARD}{script}")])
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
            Ok(output) if mount_namespace_refused(&output) => {
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

/// Shell functions for the guard of a process, and for whether a process has ended; its adopter may
/// reap it late.
const GUARD: &str = "\
guard() { grep -lz \"^$1:\" /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3; }
gone() { [ ! -e /proc/$1 ] || grep -q '^State:.Z' /proc/$1/status; }
";

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

/// Kills the run and its guard at once, like a crash of both.
const KILL_ALL: &str = "kill -9 $(guard $P) $P; wait $P 2>/dev/null; kill $C\n";

#[test]
fn a_killed_run_is_put_back_at_once_and_its_program_goes_on() {
    let script = format!(
        "{START}G=$(guard $P); kill -9 $P; wait $P 2>/dev/null
until [ \"$(cat $S)\" = madvise ] && gone $G; do sleep 0.01; done
set -- $C; cat /proc/$1/comm; kill $C; $N restore; ls /run/numapilot"
    );
    check(&script, "sleep\nnothing to restore\n");
}

#[test]
fn the_guard_is_nobodys_child_and_goes_with_its_run() {
    // The guard has its own session, no open files except the pipe and /dev/null, and only two
    // variables.
    let script = format!(
        "exec 9</etc/passwd; export MARK=x HOME=/ XDG_RUNTIME_DIR=/run; {START}G=$(guard $P)
set -- $(cut -d')' -f2 /proc/$G/stat); [ $2 != $P ] && [ $2 != $$ ] && echo not a child
set -- $3 $4 $(cut -d')' -f2 /proc/$P/stat); [ $1 != $5 ] && [ $2 != $6 ] && echo a session of its own
ls -l /proc/$G/fd | sed -n 's/.*-> \\([a-z/]*\\).*/\\1/p' | grep -v anon | sort -u
tr '\\0' '\\n' </proc/$G/environ; readlink /proc/$G/cwd
kill $P; wait $P; until gone $G; do sleep 0.01; done; cat $S"
    );
    check(
        &script,
        "not a child\na session of its own\n/dev/null\npipe\nHOME=/\nXDG_RUNTIME_DIR=/run\n/\nmadvise",
    );
}

#[test]
fn restore_puts_back_what_a_killed_run_left() {
    let script =
        format!("{START}$N restore; {KILL_ALL}cat $S; echo; $N restore; cat $S; echo; $N restore");
    if let Some(text) = in_namespace(&script) {
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("in use; --force puts it back"), "{text}");
        assert_eq!(lines[1], "always", "{text}");
        assert!(lines[2].contains("put back from always to madvise (run "), "{text}");
        assert_eq!(lines[3..], ["madvise", "nothing to restore"], "{text}");
    }
}

#[test]
fn the_next_start_of_any_verb_puts_back_what_a_killed_run_left() {
    let script = format!(
        "{START}{KILL_ALL}$N stat -o /dev/null -- cat $S 2>/run/message; echo
$N stat -o /dev/null -- true 2>&1; sed 's/run [0-9][0-9]*/run N/' /run/message"
    );
    check(
        &script,
        "madvise\nnumapilot: put back what a killed run left: transparent_hugepage/enabled: put \
         back from always to madvise (run N (sleep))\n",
    );
}

#[test]
fn the_next_run_puts_back_what_a_killed_one_left() {
    let script = format!(
        "{START}{KILL_ALL}$N run --thp always -- true 2>/dev/null; cat $S; ls /run/numapilot"
    );
    check(&script, "madvise");
}

#[test]
fn what_another_run_holds_is_reported_before_something_is_measured() {
    let stat = "$N stat -o /dev/null -- true 2>&1";
    // Settings of the run that started it were asked for, so they cause no warning.
    let script = format!(
        "{START}{stat} | sed 's/run [0-9][0-9]*/run N/'; kill $P; wait $P
$N run --thp always -- {stat}; {stat}"
    );
    check(
        &script,
        "numapilot: warning: transparent_hugepage/enabled is held at always by run N (sleep): what \
         is read or measured now is not the machine's own; wait for its end\n",
    );
}

#[test]
fn what_another_run_held_is_in_the_results() {
    let number = "sed 's/\"pid\":[0-9]*/\"pid\":N/'";
    let script = format!(
        "{START}$N stat --json -o /run/stat -- true 2>/dev/null; $N stat -o /run/table -- true 2>/dev/null
grep -A6 held_settings /run/stat | tr -d '\n ' | {number}; echo
grep -c \"not with the machine's own settings: transparent_hugepage/enabled is held at always\" /run/table
$N bench alloc mix -n 1000 -t 1 --json 2>/dev/null | grep -c '\"setting\": \"thp\"'
kill $P; wait $P; $N stat --json -- true 2>&1 | grep -c held_settings; true"
    );
    check(
        &script,
        "\"held_settings\":[{\"setting\":\"thp\",\"value\":\"always\",\"pid\":N,\"command\":\"sleep\"}\n\
         1\n1\n0\n",
    );
}

/// A profile found under another run's setting would later be used without it.
#[test]
fn a_search_under_another_runs_setting_is_refused_unless_it_is_allowed() {
    let script = format!(
        "{TUNE}touch /run/go; {START}tune 2>&1 | sed 's/run [0-9][0-9]*/run N/'; ls /run/state /run/p.toml 2>/dev/null
tune --allow-held-settings --factor thp=inherit,never >/run/out 2>/run/message
echo $?; grep -c '\"command\": \"sleep\"' /run/out; grep -c 'held at always by run' /run/message
kill $P; wait $P; tune --resume --factor thp=inherit,never 2>&1 |
grep -c 'another search'; true"
    );
    check(
        &script,
        "numapilot: error: transparent_hugepage/enabled is held at always by run N (sleep): every \
         run would be measured under that; wait for its end, or give --allow-held-settings; the \
         report and the profile then name the setting\n0\n1\n1\n1\n",
    );
}

#[test]
fn files_of_the_dead_are_removed() {
    let script = "$N run --threads sparse -- sleep 600 & P=$!
until ls /dev/shm/numapilot-bind-* >/dev/null 2>&1; do sleep 0.01; done
until C=$(cat /proc/$P/task/$P/children) && [ -n \"$C\" ]; do sleep 0.01; done
kill -9 $P; wait $P 2>/dev/null; kill $C; touch /dev/shm/other
$N run -- ls /dev/shm";
    check(script, "other\n");
}

/// Waits in the first run under `thp always` and creates `/run/there`, unless `/run/go` exists.
const TUNE: &str = "tune() {
$N tune --state /run/state --force -o /run/p.toml --json --max-runs 60 \
--factor allocator=inherit --factor threads=none --factor memory=inherit \
--factor numa-balancing=inherit \"$@\" -- sh -c '
if grep -qx always $0 && [ ! -e /run/go ]; then echo $$ >/run/there; exec sleep 600; fi; echo 1' $S
}
";

#[test]
fn tune_changes_the_machine_only_when_it_may() {
    let script = format!(
        "{TUNE}touch /run/go; tune 2>/run/message | grep -c allow-machine-wide
grep -c 'thp always: it sets transparent_hugepage/enabled to always' /run/message
grep -c 'for the whole machine during the runs' /run/message
tune --allow-machine-wide 2>/run/message >/run/out
grep -c 'for the whole machine during the runs' /run/message
grep -o -m1 '\"plan\": \"thp always\"' /run/out; cat $S; ls /run/numapilot"
    );
    check(&script, "1\n1\n0\n1\n\"plan\": \"thp always\"\nmadvise");
}

#[test]
fn a_search_that_was_killed_in_a_machine_wide_trial_goes_on() {
    let script = format!(
        "{TUNE}tune --allow-machine-wide >/dev/null 2>&1 & P=$!
until [ -s /run/there ]; do sleep 0.01; done; T=$(cat /run/there)
$N run --thp always -- true 2>&1 | sed 's/process [0-9]*/process N/'
P=$(cat /proc/$P/task/*/children 2>/dev/null | cut -d' ' -f1); kill -9 $P; wait 2>/dev/null
until gone $T; do sleep 0.01; done
touch /run/go; tune --allow-machine-wide --resume 2>/run/message | grep -o -m1 '\"plan\": \"thp always\"'; cat $S; ls /run/numapilot"
    );
    check(
        &script,
        "numapilot: error: transparent_hugepage/enabled is changed from run to run by process N \
         (tune of sh); wait for it to end\n\"plan\": \"thp always\"\nmadvise",
    );
}

#[test]
fn a_profile_that_changes_the_machine_says_so() {
    let script = "echo 'thp = \"always\"' >/run/p.toml
for verb in run 'stat -o /dev/null'; do $N $verb --profile /run/p.toml -- true 2>&1; done
$N run --profile /run/p.toml --thp always -- true 2>&1";
    check(
        script,
        &"numapilot: /run/p.toml sets transparent_hugepage/enabled to always for the whole machine \
         while the program runs\n"
            .repeat(2),
    );
}

#[test]
fn the_last_of_two_runs_puts_back() {
    let script = format!(
        "{START}$N run --thp always -- true; cat $S; echo; kill $P; wait $P; cat $S; ls /run/numapilot"
    );
    check(&script, "always\nmadvise");
}

#[test]
fn what_somebody_else_set_meanwhile_stays_and_this_is_reported() {
    let script = format!("{START}echo never > $S; kill $P; wait $P; cat $S");
    let script = script.replacen("-- sleep 600", "-- sleep 600 2>/run/message", 1);
    check(
        &format!("{script}; grep -c 'another program has changed it since' /run/message"),
        "never\n1\n",
    );
}

#[test]
fn a_program_that_does_not_start_changes_nothing() {
    check("$N run --thp always -- no-such-program 2>/dev/null; echo $?; cat $S", "127\nmadvise");
}

/// Such a user has changed nothing, because there was no place for a journal. With a home directory
/// there is one.
#[test]
fn a_user_without_a_runtime_directory_restores_too() {
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can start it as another user");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("numapilot");
    fs::copy(NUMAPILOT, &program).unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let home = directory.path().join("home");
    fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
    for (home, message) in
        [("/nonexistent", "XDG_RUNTIME_DIR is not set"), (home.to_str().unwrap(), "")]
    {
        let mut command = Command::new(&program);
        command.arg("restore").uid(NOBODY).gid(NOBODY).env_remove("XDG_RUNTIME_DIR");
        let output = command.env("HOME", home).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && error.contains(message), "{error}");
        assert_eq!(output.stdout, b"nothing to restore\n");
    }
}
