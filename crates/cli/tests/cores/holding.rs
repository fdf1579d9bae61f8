//! Tests of held targets: the cores that they have, and the threads that are left alone.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use predicates::prelude::*;
use serde_json::Value;

use crate::programs::{NUMAPILOT, compiled, signal};
use crate::{
    CPUSET, Target, all_cpus, alone, cores, daemon, end_of, end_with_messages,
    in_a_mount_namespace, wait_until, ways,
};

#[test]
fn a_target_gets_fewer_cores_and_all_of_them_back() {
    let _alone = alone();
    for way in ways() {
        for end in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            let target = Target::idle();
            let before = (target.cpus(), target.groups());
            let arguments = ["-p", &target.pid(), "--actuator", way, "--tick", "20ms"];
            let mut daemon = daemon(&arguments);
            let first: BTreeSet<String> = ["0".to_owned()].into();
            wait_until("one core", || {
                target.cpus() == first || target.cpus().iter().all(|c| !c.contains(['-', ',']))
            });
            signal(&daemon, end);
            assert!(end_of(&mut daemon).success(), "{way}");
            assert_eq!((target.cpus(), target.groups()), before, "{way}, signal {end}");
        }
    }
}

/// The first thread, which has ended, is no longer in a group.
#[test]
fn a_target_whose_first_thread_has_ended_is_held() {
    let _alone = alone();
    for way in ways() {
        let target = Target::start(&mut numapilot_test_kit::first_thread_ends());
        // Read the worker: the kernel's data of the first thread no longer changes.
        let of_worker = || {
            let tasks = fs::read_dir(format!("/proc/{}/task", target.pid())).unwrap().flatten();
            let worker = tasks.map(|t| t.path()).find(|t| !t.ends_with(target.pid())).unwrap();
            let status = fs::read_to_string(worker.join("status")).unwrap();
            let cpus = status.lines().find(|l| l.starts_with("Cpus_allowed_list")).unwrap();
            (cpus.to_owned(), fs::read_to_string(worker.join("cgroup")).unwrap())
        };
        let before = of_worker();
        let mut daemon = daemon(&["-p", &target.pid(), "--actuator", way, "--tick", "20ms"]);
        wait_until("fewer cores", || of_worker().0 != before.0);
        // The target stays held for some ticks.
        std::thread::sleep(Duration::from_millis(200));
        let held = of_worker().0;
        signal(&daemon, libc::SIGTERM);
        let status = end_of(&mut daemon);
        assert!(held != before.0 && status.success(), "{way}: {held}");
        assert_eq!(of_worker(), before, "{way}");
    }
}

#[test]
fn thousands_of_threads_are_held_and_let_go() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled("threads.c", directory.path()) else { return };
    for way in ways() {
        let target = Target::start(Command::new(&program).arg("3000"));
        let before = target.cpus();
        let mut daemon = daemon(&["-p", &target.pid(), "--actuator", way, "--max", "1"]);
        wait_until("one core for all", || {
            let cpus = target.cpus();
            cpus.len() == 1 && cpus != before
        });
        signal(&daemon, libc::SIGTERM);
        assert!(end_of(&mut daemon).success());
        assert_eq!(target.cpus(), before, "{way}");
    }
}

#[test]
fn threads_that_pin_themselves_are_left_alone_and_named() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled("threads.c", directory.path()) else { return };
    if ways().is_empty() {
        return;
    }
    let target = Target::start(Command::new(&program).args(["3", "pin"]));
    let before = target.cpus();
    assert_eq!(before.len(), 2, "{before:?}");
    // A cpuset would override it.
    cores(&["-p", &target.pid(), "--actuator", "cgroup-v1"]).assert().code(125).stderr(
        predicate::str::contains("have an affinity of their own")
            .or(predicate::str::contains("cgroup v1: no")),
    );
    let mut daemon = daemon(&["-p", &target.pid(), "--tick", "20ms"]);
    wait_until("one core for the others", || {
        target.cpus().iter().all(|cpus| !cpus.contains(['-', ',']))
    });
    std::thread::sleep(Duration::from_millis(100));
    signal(&daemon, libc::SIGTERM);
    let (_, text) = end_with_messages(&mut daemon);
    assert!(text.contains("have an affinity of their own (1)"), "{text}");
    assert_eq!(target.cpus(), before);
}

/// A thread that is held by affinity may choose other CPUs. How soon that is seen depends on what a
/// look at the threads costs, so the program lasts until it was seen.
#[test]
fn a_thread_that_pins_itself_later_is_named_as_well() {
    let _alone = alone();
    if !ways().contains(&"affinity") {
        return;
    }
    let script = format!("sleep 0.5; taskset -pc {} $$; exec sleep 60", all_cpus() - 1);
    let arguments =
        ["--json", "--tick", "20ms", "--actuator", "affinity", "--", "sh", "-c", &script];
    let mut daemon = daemon(&arguments);
    let lines = BufReader::new(daemon.stdout.take().unwrap()).lines().map_while(Result::ok);
    // taskset prints lines of its own.
    let lines = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    let mut counts = lines.map(|line| line["metrics"]["pinned_threads"].as_u64().unwrap());
    assert_eq!(counts.next(), Some(0));
    assert!(counts.any(|count| count > 0), "the program ended first");
    signal(&daemon, libc::SIGTERM);
    let (_, text) = end_with_messages(&mut daemon);
    assert!(text.contains("have an affinity of their own"), "{text}");
}

/// The number of threads that a program creates depends on the CPUs that it finds when it starts.
#[test]
fn a_program_that_starts_finds_all_cores_and_keeps_them_for_a_while() {
    let _alone = alone();
    if ways().is_empty() {
        return;
    }
    for mode in ["default", "paper"] {
        let script = "nproc; while [ $(nproc) -gt 1 ]; do sleep 0.2; done; nproc";
        let begin = Instant::now();
        let tick = ["--mode", mode, "--tick", "20ms", "--startup", "1s", "-v"];
        let output = cores(&tick).args(["--", "sh", "-c", script]).output().unwrap();
        assert!(begin.elapsed() >= Duration::from_secs(1), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{}\n1\n", all_cpus()));
    }
    cores(&["--startup", "0", "--", "true"]).assert().success();
    cores(&["--startup", "1s", "-p", "1"])
        .assert()
        .code(125)
        .stderr(predicate::str::contains("cannot be used with"));
}

#[test]
fn two_targets_share_no_core() {
    const TICKS: usize = 20;
    let _alone = alone();
    let ways = ways();
    for way in ways {
        let (one, two) = (Target::idle(), Target::idle());
        let pids = format!("{},{}", one.pid(), two.pid());
        let mut daemon = daemon(&[
            "-p",
            &pids,
            "--weight",
            "2,1",
            "--actuator",
            way,
            "--tick",
            "20ms",
            "--json",
        ]);
        let mut held = BTreeSet::new();
        wait_until("a core for each", || {
            held = one.cpus().union(&two.cpus()).cloned().collect();
            held.len() == 2 && held.iter().all(|cpus| !cpus.contains(['-', ',']))
        });
        let mut lines = BufReader::new(daemon.stdout.take().unwrap()).lines();
        let lines: Vec<String> = lines.by_ref().map_while(Result::ok).take(TICKS * 2).collect();
        signal(&daemon, libc::SIGINT);
        assert!(end_of(&mut daemon).success());
        assert_eq!(lines.len(), TICKS * 2, "{lines:?}");
        let mut measured = [false; 2];
        for pair in lines.chunks(2) {
            let mut cpus = |at: usize| {
                let line: Value = serde_json::from_str(&pair[at]).unwrap();
                let cpus = line["done"]["cpus"].as_array().unwrap().clone();
                // If reading the clocks takes long, a tick has no sample.
                let busy = &line["metrics"]["busy"];
                assert!(!cpus.is_empty() && (busy.is_number() || busy.is_null()));
                measured[at] |= busy.is_number();
                cpus
            };
            let (a, b) = (cpus(0), cpus(1));
            assert!(a.iter().all(|cpu| !b.contains(cpu)), "{pair:?}");
        }
        assert_eq!(measured, [true; 2], "{lines:?}");
    }
}

/// A target that keeps all CPUs busy is left alone: there is no change, whatever else the machine
/// does.
#[test]
fn a_target_that_uses_all_cores_sees_nothing_of_it() {
    let _alone = alone();
    for way in ways() {
        let spin = "while :; do :; done &";
        let script = format!("{} echo ready; read x", spin.repeat(all_cpus()));
        let target = Target::start(Command::new("sh").args(["-c", &script]));
        // Its processes have started, so the first tick counts too.
        let before = target.cpus();
        let mut daemon = daemon(&["-p", &target.pid(), "--actuator", way, "--json"]);
        let lines = BufReader::new(daemon.stdout.take().unwrap()).lines();
        for line in lines.map_while(Result::ok).take(30) {
            let line: Value = serde_json::from_str(&line).unwrap();
            let (had, has) = (&line["metrics"]["cores"], &line["done"]["cores"]);
            assert_eq!((had, has), (&all_cpus().into(), &all_cpus().into()), "{way}: {line}");
        }
        assert_eq!(target.cpus(), before, "{way}");
        signal(&daemon, libc::SIGTERM);
        assert!(end_of(&mut daemon).success());
    }
}

/// The hierarchy is read-only in a separate mount namespace.
#[test]
fn where_no_group_may_be_written_affinity_does() {
    let _alone = alone();
    if !ways().contains(&"cgroup-v1") {
        return;
    }
    if !in_a_mount_namespace() {
        return;
    }
    let target = Target::idle();
    let before = target.cpus();
    let script = format!(
        "mount -o remount,bind,ro {CPUSET} && exec {NUMAPILOT} cores -v -p {} --tick 20ms",
        target.pid()
    );
    let mut daemon = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("fewer cores", || target.cpus() != before);
    signal(&daemon, libc::SIGTERM);
    let (status, text) = end_with_messages(&mut daemon);
    assert!(status.success(), "{text}");
    assert!(text.contains("is held by the affinity of every thread"), "{text}");
    assert_eq!(target.cpus(), before);
}
