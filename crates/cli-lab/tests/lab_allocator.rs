//! The allocator on a machine of eight nodes: the real node of its objects (`move_pages`), and the
//! number of its mappings.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what a test is for")]

mod guests;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use guests::{NUMAPILOT, boots, err};
use serde_json::Value;

/// CPUs of a node of machine-a in the lab.
const CPUS_PER_NODE: &str = "2";

/// The share of the examined objects that are on the node of the thread that allocated them.
type Shares = BTreeMap<String, f64>;

/// Runs a script on the machine of eight nodes and returns its output. The script finds the program
/// compiled from `source`, a path relative to this crate, as `$program`.
fn printed(source: &str, script: &str) -> Option<String> {
    if !boots() {
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-fno-builtin", "-pthread", "-o"]).arg(&program).arg(source);
    if !cc.output().is_ok_and(|output| output.status.success()) {
        println!("skipped: no C compiler");
        return None;
    }
    let file = directory.path().join("script");
    fs::write(&file, format!("program={}\n{script}", program.display())).unwrap();
    let output = Command::new(NUMAPILOT)
        .args(["lab", "run", "--no-model", "--machine", "machine-a", "--numa-balancing", "off"])
        // The default of distributions, and the harder case: a huge page is on one node.
        .args(["--thp", "always"])
        .arg("--include")
        .arg(&program)
        .args(["--", "sh"])
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(output.status.success(), "{printed}{}", err(&output));
    Some(printed)
}

/// The program's results under each of these settings.
fn shares(settings: &[(&str, &str)]) -> Option<BTreeMap<String, Shares>> {
    let mut script = String::new();
    for (name, variables) in settings {
        script += &format!(
            "echo '== {name}'\n{variables} numapilot run --allocator numapilot -- $program {CPUS_PER_NODE}\n"
        );
    }
    let printed = printed("../cli/tests/programs/origin.c", &script)?;
    let mut all: BTreeMap<String, Shares> = BTreeMap::new();
    let mut name = String::new();
    for line in printed.lines() {
        if let Some(next) = line.strip_prefix("== ") {
            next.clone_into(&mut name);
        } else if let Some((what, local, looked_at)) = share(line) {
            assert!(looked_at > 1000.0, "{line}");
            all.entry(name.clone()).or_default().insert(what.to_owned(), local / looked_at);
        }
    }
    Some(all)
}

/// Parses `local WHAT n of m`.
fn share(line: &str) -> Option<(&str, f64, f64)> {
    let (front, looked_at) = line.strip_prefix("local ")?.split_once(" of ")?;
    let (what, local) = front.rsplit_once(' ')?;
    Some((what, local.parse().ok()?, looked_at.parse().ok()?))
}

#[test]
fn objects_lie_where_they_are_asked_for() {
    let Some(all) = shares(&[
        ("usual", ""),
        ("no origin", "NUMAPILOT_ALLOC_ORIGIN=0"),
        ("interleave", "NUMAPILOT_ALLOC_LARGE=interleave NUMAPILOT_ALLOC_THP=0"),
    ]) else {
        return;
    };
    let of = |setting: &str, what: &str| {
        all.get(setting)
            .and_then(|shares| shares.get(what))
            .copied()
            .unwrap_or_else(|| panic!("{setting}, {what}: {all:?}"))
    };
    for setting in ["usual", "interleave"] {
        for what in ["at first", "after frees elsewhere", "after moving"] {
            assert!(of(setting, what) > 0.99, "{setting}, {what}: {all:?}");
        }
    }
    // The effect of origin tracking: without it objects stay where they were freed.
    assert!(of("no origin", "at first") > 0.99, "{all:?}");
    // Idle objects return to their spans after 100 ms all the same, many of them on a busy host.
    for what in ["after frees elsewhere", "after moving"] {
        assert!(of("no origin", what) < 0.97, "{what}: {all:?}");
    }
    assert!(of("usual", "large block") > 0.99, "{all:?}");
    assert!(of("usual", "slices") > 0.99, "{all:?}");
    assert!((0.1..0.15).contains(&of("interleave", "large block")), "{all:?}");
}

/// Blocks of threads on all nodes grow up to the limit of mappings per process. The guest's kernel
/// moves one mapping at a time, and unmaps the target before it reports an error.
#[test]
fn mappings_are_bounded_on_eight_nodes() {
    let script = "\
export STEPS_DIVIDED_BY=4
for case in threads_with_growing_blocks a_long_block_is_moved; do
  numapilot run --allocator numapilot -- $program $case || exit
done
echo 1000 > /proc/sys/vm/max_map_count
for case in threads_with_growing_blocks freed_blocks_are_merged; do
  numapilot run --allocator numapilot -- $program $case || exit
done
echo done";
    let Some(printed) = printed("../inside/alloc/preload/tests/mappings.c", script) else { return };
    assert!(printed.contains("done"), "{printed}");
}

/// The start must not ask for every node that the kernel has room for: 1024 files would take
/// longer than a small program runs.
#[test]
fn a_process_starts_with_few_system_calls() {
    if !boots() {
        return;
    }
    let kernel_instructions = |options: &[&str]| {
        let output = Command::new(NUMAPILOT)
            .args(["lab", "run", "--json", "--machine", "machine-a", "--", "numapilot", "run"])
            .args(options)
            .args(["--", "sh", "-c", ":"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", err(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let regions = report["regions"].as_array().unwrap();
        let program = regions.iter().find(|region| region["name"] == "program").unwrap();
        program["kernel"]["instructions"].as_u64().unwrap()
    };
    let more = kernel_instructions(&["--allocator", "numapilot"]) - kernel_instructions(&[]);
    assert!((10_000..6_000_000).contains(&more), "{more} instructions of the kernel");
}
