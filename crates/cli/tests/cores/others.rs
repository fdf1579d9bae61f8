//! Tests of interference by others: they kill the daemon or the target, move the target, or start a
//! second daemon.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use numapilot_sys::process::PidFd;
use predicates::prelude::*;

use crate::programs::{NUMAPILOT, err, signal};
use crate::{
    CPUSET, LIMIT, Target, alone, cores, daemon, end_of, end_with_messages, in_a_mount_namespace,
    wait_until, ways,
};

/// The guard of a daemon.
fn guard_of(daemon: &Child) -> Option<i32> {
    let is_its = |text: Vec<u8>| {
        text.split(|byte| *byte == 0)
            .any(|word| word.starts_with(format!("{}:", daemon.id()).as_bytes()))
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|process| is_its(fs::read(process.path().join("cmdline")).unwrap_or_default()))
        .find_map(|process| process.file_name().to_str()?.parse().ok())
}

/// Kills the guard of a daemon, which would put everything back when the daemon dies.
fn end_guard_of(daemon: &Child) {
    if let Some(pid) = guard_of(daemon) {
        PidFd::open(pid).unwrap().signal(libc::SIGKILL).unwrap();
    }
}

#[test]
fn the_guard_has_a_name_of_its_own() {
    let _alone = alone();
    let target = Target::idle();
    let mut daemon = daemon(&["-p", &target.pid()]);
    wait_until("the guard has its name", || {
        let guard = guard_of(&daemon).map(|pid| format!("/proc/{pid}/comm"));
        guard.and_then(|path| fs::read_to_string(path).ok()).as_deref() == Some("numapilot-guard\n")
    });
    signal(&daemon, libc::SIGINT);
    assert!(end_of(&mut daemon).success());
}

#[test]
fn restore_puts_back_what_a_killed_daemon_left() {
    let _alone = alone();
    for way in ways() {
        let target = Target::idle();
        let before = (target.cpus(), target.groups());
        let mut daemon = daemon(&["-p", &target.pid(), "--actuator", way, "--tick", "20ms"]);
        wait_until("fewer cores", || target.cpus() != before.0);
        // A second daemon is refused, whichever way it uses.
        cores(&["-p", &target.pid()])
            .assert()
            .code(125)
            .stderr(predicate::str::contains("numapilot cores"));
        end_guard_of(&daemon);
        daemon.kill().unwrap();
        end_of(&mut daemon);
        assert_ne!(target.cpus(), before.0, "{way}");
        let restored =
            assert_cmd::Command::cargo_bin("numapilot").unwrap().arg("restore").output().unwrap();
        // Another test's daemon may already have put it back.
        assert!(restored.status.success(), "{}", err(&restored));
        assert_eq!((target.cpus(), target.groups()), before, "{way}");
    }
}

/// The target's end ends the run, and its group is removed.
#[test]
fn a_target_that_dies_leaves_nothing() {
    let _alone = alone();
    for way in ways() {
        let mut target = Target::idle();
        let (pid, before) = (target.pid(), target.cpus());
        let mut daemon = daemon(&["-p", &pid, "--actuator", way, "--tick", "20ms"]);
        wait_until("fewer cores", || target.cpus() != before);
        // It was not waited for yet, so it is a zombie.
        target.0.kill().unwrap();
        let (status, text) = end_with_messages(&mut daemon);
        assert!(status.success(), "{way}: {text}");
        // It may also warn of other runs on this machine.
        let of_target = format!("process {pid}");
        let warns = |line: &str| line.contains("warning") && line.contains(&of_target);
        assert!(!text.lines().any(warns), "{way}: {text}");
        target.0.wait().unwrap();
        let left = format!("numapilot-cores-{pid}-");
        let groups = fs::read_dir(CPUSET).into_iter().flatten().flatten();
        assert!(groups.into_iter().all(|g| !g.file_name().to_string_lossy().starts_with(&left)));
        let records = fs::read_dir("/run/numapilot-cores").into_iter().flatten().flatten();
        assert!(
            records
                .into_iter()
                .all(|r| !r.file_name().to_string_lossy().starts_with(&format!("{pid}-")))
        );
    }
}

/// If somebody moves the target out of its group, it stays there; nothing is left, and a message
/// tells that.
#[test]
fn a_target_that_is_moved_away_is_left_as_it_is() {
    let _alone = alone();
    if !ways().contains(&"cgroup-v1") {
        return;
    }
    let target = Target::idle();
    let before = (target.cpus(), target.groups());
    let mut daemon = daemon(&["-p", &target.pid(), "--actuator", "cgroup-v1", "--tick", "20ms"]);
    wait_until("fewer cores", || target.cpus() != before.0);
    fs::write(format!("{CPUSET}/cgroup.procs"), target.pid()).unwrap();
    let (status, text) = end_with_messages(&mut daemon);
    assert_eq!(status.code(), Some(125), "{text}");
    assert!(text.contains("somebody else moved it"), "{text}");
    assert_eq!((target.cpus(), target.groups()), before);
}

/// A target whose record is intact is put back, and another is managed, next to a file that is not
/// a record; `$N` is numapilot.
const DAMAGED: &str = "
mount -t tmpfs none /run && mkdir -m 700 /run/numapilot-cores || exit 77
allowed() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$P/status; }
sleep 60 <&- >&- 2>&- & P=$!
BEFORE=$(allowed)
$N cores -p $P --actuator affinity --max 1 2>/dev/null & D=$!
for i in $(seq 500); do [ \"$(allowed)\" = \"$BEFORE\" ] || break; sleep 0.02; done
kill -9 $(grep -lz \"^$D:\" /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3) $D; wait $D 2>/dev/null
[ \"$(allowed)\" = \"$BEFORE\" ] || echo narrowed
echo x > /run/numapilot-cores/z.json
$N restore 2>/run/stderr; echo \"restore $?\"; grep -c 'not everything' /run/stderr
[ \"$(allowed)\" = \"$BEFORE\" ] && echo as before
$N cores sh -c 'echo managed; exit 3' 2>/run/stderr; echo \"cores $?\"
grep -c 'z.json is not a record of numapilot cores (.*remove the file' /run/stderr
kill $P
";

#[test]
fn a_record_that_cannot_be_read_blocks_no_other() {
    let _alone = alone();
    if !ways().contains(&"affinity") || !in_a_mount_namespace() {
        return;
    }
    let output = Command::new("timeout")
        .args(["60", "unshare", "-m", "sh", "-c", DAMAGED])
        .env("N", NUMAPILOT)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("cores of")).collect();
    assert!(lines[1].starts_with("/run/numapilot-cores/z.json is not a record"), "{text}");
    assert!(lines[1].contains("remove the file"), "{text}");
    let rest = ["restore 125", "1", "as before", "managed", "cores 3", "1"];
    assert_eq!((lines[0], &lines[2..]), ("narrowed", &rest[..]), "{text}{}", err(&output));
}

/// The second one is refused, names the first and changes nothing, even if different users started
/// them.
#[test]
fn a_target_has_one_daemon_at_a_time() {
    const NOBODY: u32 = 65534;
    let _alone = alone();
    if !ways().contains(&"affinity") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // In a place from which another user may start it.
    let program = directory.path().join("numapilot");
    fs::copy(NUMAPILOT, &program).unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let runtime = directory.path().join("runtime");
    fs::create_dir(&runtime).unwrap();
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(&runtime, Some(NOBODY), Some(NOBODY)).unwrap();
    } else {
        println!("skipped: only root can start it as another user");
    }
    let by = |other: bool| {
        let mut command = Command::new(&program);
        if other {
            command.uid(NOBODY).gid(NOBODY).env("XDG_RUNTIME_DIR", &runtime);
        }
        command
    };
    let users: &[_] =
        if is_root { &[(false, false), (false, true), (true, false)] } else { &[(false, false)] };
    for (first, second) in users {
        let mut idle = Command::new("sh");
        idle.args(["-c", "echo ready; read x"]);
        if *first || *second {
            idle.uid(NOBODY).gid(NOBODY);
        }
        let target = Target::start(&mut idle);
        let arguments = ["cores", "-p", &target.pid(), "--actuator", "affinity", "--tick", "20ms"];
        let mut daemon = by(*first).args(arguments).stderr(Stdio::null()).spawn().unwrap();
        wait_until("one core", || target.cpus().iter().all(|cpus| !cpus.contains(['-', ','])));
        let before = target.cpus();
        let mut refused = by(*second);
        refused.args(arguments);
        let refused = assert_cmd::Command::from_std(refused).timeout(LIMIT).output().unwrap();
        assert_eq!(refused.status.code(), Some(125), "{}", err(&refused));
        let who = format!("is under numapilot cores already (run {})", daemon.id());
        assert!(err(&refused).contains(&who), "{}", err(&refused));
        assert_eq!(target.cpus(), before);
        signal(&daemon, libc::SIGTERM);
        assert!(end_of(&mut daemon).success());
        assert_ne!(target.cpus(), before);
    }
}

/// Reads the messages of a daemon up to one with this text, and returns them.
fn messages_until(daemon: &mut Child, text: &str) -> String {
    let mut messages = String::new();
    let mut reader = BufReader::new(daemon.stderr.as_mut().unwrap());
    while !messages.contains(text) {
        let length = reader.read_line(&mut messages).unwrap();
        assert!(length > 0, "the daemon has ended: {messages}");
    }
    messages
}

/// A daemon has all cores until its first tick.
#[test]
fn a_daemon_waits_for_the_cores_of_another() {
    let _alone = alone();
    if ways().is_empty() {
        return;
    }
    let targets = [Target::idle(), Target::idle()];
    let [first, second] = targets.each_ref().map(Target::pid);
    let before = targets[1].cpus();
    let mut holds = daemon(&["-p", &first, "--tick", "6s", "-v"]);
    messages_until(&mut holds, "begins");
    let mut waits = daemon(&["-p", &second, "--tick", "20ms", "-v"]);
    let messages = messages_until(&mut waits, "begins");
    assert!(messages.contains(&format!("process {second} waits for cores")), "{messages}");
    assert!(messages.contains("begins with"), "{messages}");
    for mut daemon in [holds, waits] {
        signal(&daemon, libc::SIGTERM);
        assert!(end_of(&mut daemon).success());
    }
    assert_eq!(targets[1].cpus(), before);
}

#[test]
fn a_daemon_does_not_wait_without_end() {
    let _alone = alone();
    if ways().is_empty() {
        return;
    }
    let target = Target::idle();
    let before = target.cpus();
    let mut holds = daemon(&["--startup", "60s", "-v", "sleep", "60"]);
    messages_until(&mut holds, "begins");
    let waits = || daemon(&["-p", &target.pid()]);
    // A signal ends it, and it has changed nothing.
    let mut stopped = waits();
    messages_until(&mut stopped, "waits for cores");
    signal(&stopped, libc::SIGTERM);
    assert!(end_of(&mut stopped).success());
    let (status, text) = end_with_messages(&mut waits());
    assert_eq!(status.code(), Some(125), "{text}");
    assert!(text.contains("end numapilot cores of another program"), "{text}");
    assert_eq!(target.cpus(), before);
    signal(&holds, libc::SIGTERM);
    end_of(&mut holds);
}

/// PID 2 is kthreadd if this is the machine's first PID namespace.
#[test]
fn kernel_threads_are_refused_and_nothing_is_changed_before() {
    let _alone = alone();
    if fs::read_to_string("/proc/2/comm").ok().as_deref() != Some("kthreadd\n") {
        println!("skipped: no kernel threads in this PID namespace");
        return;
    }
    let target = Target::idle();
    let before = (target.cpus(), target.groups());
    let pids = format!("{},2", target.pid());
    for verb in [
        &["cores", "--max", "1"][..],
        &["balance"],
        &["stat", "--timeout", "5"],
        &["top", "--once"],
    ] {
        assert_cmd::Command::cargo_bin("numapilot")
            .unwrap()
            .args(verb)
            .args(["-p", &pids])
            .timeout(LIMIT)
            .assert()
            .code(125)
            .stderr(predicate::str::contains("PID 2 is a kernel thread (kthreadd): "));
    }
    assert_eq!((target.cpus(), target.groups()), before);
}
