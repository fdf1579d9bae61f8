//! Tests of the settings of a plan: memory, CPUs, pages and variables, by options and by profiles.

use std::fs;
use std::process::{Command, Output};

use numapilot_test_kit::mount_namespace_refused;

use crate::{NUMAPILOT, compile, err, failure, out, run};

#[test]
fn every_memory_policy_reaches_the_program() {
    for (options, seen) in [
        (&[][..], " default "),
        (&["-l"], " local "),
        (&["-i", "all"], " interleave:"),
        (&["--interleave=0"], " interleave:0 "),
        (&["-w", "all"], " weighted interleave:"),
        (&["-m", "+0"], " bind:"),
        (&["-p", "+0"], " prefer:"),
        (&["-P", "all"], " prefer (many):"),
        (&["--numa-balancing", "off"], " local "),
        // With the flag, the kernel shows "=balancing" after the mode.
        (&["-b", "-m", "all"], " bind=balancing:"),
    ] {
        let output = run(&[options, &["head", "-n1", "/proc/self/numa_maps"]].concat());
        let stderr = err(&output);
        if stderr.contains("this kernel") {
            println!("skipped: {options:?}: {stderr}");
            continue;
        }
        let line = String::from_utf8(output.stdout).unwrap();
        assert!(line.contains(seen), "{options:?}: {line}{stderr}");
    }
}

#[test]
fn cpus_huge_pages_and_variables_reach_the_program() {
    let status =
        out(&["-C", "+0", "--thp", "never", "grep", "-E", "Cpus_|THP", "/proc/self/status"]);
    assert!(status.contains("THP_enabled:\t0"), "{status}");
    let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:\t")).unwrap();
    assert!(list.parse::<u32>().is_ok(), "one CPU: {list}");
    assert_eq!(out(&["--env", "A=b c", "--env", "D=", "sh", "-c", "echo \"$A|$D\""]), "b c|\n");
    assert!(failure(&["--env", "A", "true"]).contains("NAME=VALUE"));
}

#[test]
fn a_profile_is_applied_and_options_come_on_top() {
    let directory = tempfile::tempdir().unwrap();
    let profile = directory.path().join("p.toml");
    let text = "thp = \"never\"\n[memory]\nmode = \"interleave\"\n[env]\nA = \"profile\"\n";
    fs::write(&profile, text).unwrap();
    let profile = profile.to_str().unwrap();
    let script = "head -n1 /proc/self/numa_maps; grep THP /proc/self/status; echo $A";
    let plain = out(&["--profile", profile, "sh", "-c", script]);
    assert!(plain.contains(" interleave:") && plain.contains("THP_enabled:\t0"), "{plain}");
    assert!(plain.ends_with("profile\n"), "{plain}");
    let over = out(&["--profile", profile, "-l", "--env", "A=option", "sh", "-c", script]);
    assert!(over.contains(" local ") && over.contains("THP_enabled:\t0"), "{over}");
    assert!(over.ends_with("option\n"), "{over}");
    fs::write(profile, "thp = \"never\"\nthp = \"always\"\n").unwrap();
    assert!(failure(&["--profile", profile, "true"]).contains("line 2"));
}

#[test]
fn a_profile_that_sets_what_code_runs_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let profile = directory.path().join("p.toml");
    fs::write(&profile, "[env]\nPATH = \"/usr/bin:/bin\"\nLD_PRELOAD = \"\"\nA = \"1\"\n").unwrap();
    let output = run(&["--profile", profile.to_str().unwrap(), "true"]);
    let stderr = err(&output);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains(" sets PATH=/usr/bin:/bin") && stderr.contains(" sets LD_PRELOAD="));
    assert_eq!(stderr.lines().count(), 2, "{stderr}");
}

#[test]
fn one_instance_for_each_node() {
    let text =
        out(&["--per-node", "--prefix", "sh", "-c", "echo {node}; cat /proc/self/numa_maps"]);
    let nodes: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("[node ")?.split_once("] "))
        .inspect(|(node, rest)| assert!(rest == node || rest.contains(&format!(" bind:{node}"))))
        .filter_map(|(node, rest)| (node == rest).then_some(node))
        .collect();
    assert!(!nodes.is_empty(), "{text}");
    let lines = out(&["--per-node", "--dry-run", "prog", "{node}"]);
    assert_eq!(lines.lines().count(), nodes.len(), "{lines}");
    assert_eq!(run(&["--per-node", "sh", "-c", "exit 5"]).status.code(), Some(5));
}

#[test]
fn all_reaches_the_cpus_that_the_affinity_leaves_out() {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let cpus = numapilot_topology::CpuSet::parse_list(online.trim()).unwrap();
    let Some(last) = cpus.iter().last().filter(|_| cpus.len() > 1) else {
        println!("skipped: one CPU");
        return;
    };
    let first = cpus.first().unwrap().to_string();
    let narrow = |options: &[&str]| {
        let run = [&["-c", &first, NUMAPILOT, "run"], options].concat();
        Command::new("taskset").args(run).output()
    };
    let last = last.to_string();
    let seen = ["grep", "Cpus_allowed_list", "/proc/self/status"];
    let Ok(all) = narrow(&[&["-a", "-C", &last], &seen[..]].concat()) else {
        println!("skipped: no taskset");
        return;
    };
    if err(&all).contains("cpuset") {
        println!("skipped: the cpuset of the tests does not hold every CPU");
        return;
    }
    assert_eq!(String::from_utf8_lossy(&all.stdout), format!("Cpus_allowed_list:\t{last}\n"));
    let refused = narrow(&["-C", &last, "true"]).unwrap();
    assert_eq!(refused.status.code(), Some(125));
    let stderr = err(&refused);
    assert!(stderr.contains("affinity that this process inherited"), "{stderr}");
    assert!(stderr.contains("-a (--all)"), "{stderr}");
    let dry =
        narrow(&[&["-a", "-C", &last, "-i", "all", "--dry-run"], &seen[..]].concat()).unwrap();
    let line = String::from_utf8(dry.stdout).unwrap();
    assert!(line.starts_with("numactl --all "), "{line}");
    if Command::new("numactl").arg("--show").output().is_err() {
        println!("skipped: no numactl");
        return;
    }
    let printed = Command::new("taskset").args(["-c", &first, "sh", "-c", &line]).output().unwrap();
    assert_eq!(printed.stdout, all.stdout, "{}", err(&printed));
}

/// Sets its own switch that excludes memory for which huge pages are asked, and runs its arguments.
/// Without arguments it prints its switch.
const ADVISED: &str = r#"
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int argc, char **argv) {
    if (argc < 2) return !printf("%d\n", prctl(42, 0, 0, 0, 0));
    if (prctl(41, 1, 2, 0, 0)) return 99;
    execvp(argv[1], argv + 1);
    return 97;
}
"#;

#[test]
fn huge_pages_are_off_also_where_only_advised_memory_had_them() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compile(directory.path(), ADVISED, &[]) else { return };
    let switch = |thp: &str| {
        let run = [NUMAPILOT, "run", "--thp", thp, program.to_str().unwrap()];
        let output = Command::new(&program).args(run).output().unwrap();
        if output.status.code() == Some(99) {
            println!("skipped: PR_THP_DISABLE_EXCEPT_ADVISED came with Linux 6.18");
            return None;
        }
        Some(String::from_utf8(output.stdout).unwrap())
    };
    let Some(inherited) = switch("inherit") else { return };
    assert_eq!(inherited, "3\n");
    assert_eq!(switch("never").unwrap(), "1\n");
}

/// Runs a script in its own mount namespace. If that is not possible, prints it and returns `None`.
fn with_own_mounts(script: &str) -> Option<Output> {
    let output = Command::new("unshare").args(["-m", "sh", "-c", script]).output();
    let output = output.ok().filter(|output| !mount_namespace_refused(output));
    if output.is_none() {
        println!("skipped: no mount namespaces here");
    }
    output
}

/// A machine-wide change could not be put back.
#[test]
fn without_room_for_the_journal_the_program_runs_and_what_is_lost_is_reported() {
    let setting = "/proc/sys/kernel/numa_balancing";
    let Ok(now) = fs::read_to_string(setting) else {
        println!("skipped: this kernel has no AutoNUMA");
        return;
    };
    if fs::File::options().write(true).open(setting).is_err() {
        println!("skipped: nothing machine-wide may be changed here");
        return;
    }
    let wanted = if now.trim() == "0" { "on" } else { "off" };
    let script = format!(
        "mount -t tmpfs -o size=4k none /run && echo >/run/x || exit 77\n\
         {NUMAPILOT} run --numa-balancing {wanted} echo ran; echo $?\n\
         {NUMAPILOT} run --strict --numa-balancing {wanted} echo ran; echo $?\n\
         {NUMAPILOT} run -l echo ran; echo $?"
    );
    let Some(output) = with_own_mounts(&script) else { return };
    let stderr = err(&output);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ran\n0\n125\nran\n0\n", "{stderr}");
    let lost = format!("warning: numa-balancing {wanted}: ");
    assert_eq!(stderr.matches(&lost).count(), 1, "{stderr}");
    assert!(stderr.contains("the journal from which it would be restored cannot be written"));
    assert!(stderr.contains("No space left on device"), "{stderr}");
    assert_eq!(fs::read_to_string(setting).unwrap(), now);
}

/// A mapping has memory or does not exist: otherwise a program would end by SIGBUS later.
#[test]
fn without_room_in_shared_memory_the_program_runs_and_this_is_reported() {
    let script = format!(
        "mount -t tmpfs -o size=8k,mode=1777 none /dev/shm || exit 77\n\
         cat /dev/zero >/dev/shm/x 2>/dev/null\n\
         TMPDIR=/dev/shm {NUMAPILOT} run --threads dense echo ran; echo $?\n\
         {NUMAPILOT} run --threads dense echo ran; echo $?"
    );
    let Some(output) = with_own_mounts(&script) else { return };
    let stderr = err(&output);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ran\n0\nran\n0\n", "{stderr}");
    assert_eq!(stderr.matches("there was no room in /dev/shm").count(), 1, "{stderr}");
}
