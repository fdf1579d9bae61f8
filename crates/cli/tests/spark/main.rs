//! `run --per-node` and `run --via spark` with a standalone cluster of Spark, which is not modified.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod cluster;
mod tables;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use cluster::{Cluster, Spark};
use numapilot_topology::{Machine, Node};
use serde_json::Value;
use tables::{Tables, checksum};

const NUMAPILOT: &str = env!("CARGO_BIN_EXE_numapilot");

/// The target folder, into which `scripts/setup test` puts Python's modules.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().to_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The application, whose executors run under a profile and attest it.
struct Application<'a> {
    tables: &'a Tables,
    executors: usize,
    profile: &'a Path,
    attest: &'a Path,
}

/// The nodes that get a worker.
fn nodes(machine: &Machine) -> Vec<&Node> {
    let is_usable = |node: &&Node| !node.cpus.intersection(&machine.allowed.cpus).is_empty();
    machine.nodes.iter().filter(is_usable).collect()
}

/// What the application printed, with the right answer and as many executors as there should be.
fn report(output: &Output, tables: &Tables, executors: usize) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.starts_with('{'));
    let line = line.unwrap_or_else(|| panic!("no answer: {text}{}", err(output)));
    let report: Value = serde_json::from_str(line).unwrap();
    assert_eq!(checksum(&report["rows"]), tables.checksum, "{report}");
    assert_eq!(report["known"], executors, "{report}");
    let found = report["executors"].as_array().unwrap();
    assert_eq!(found.len(), executors, "{report}");
    found.clone()
}

/// Executors that have only what they inherit from the workers, each on one of the nodes.
fn inherit_from_workers(found: &[Value], machine: &Machine, nodes: &[&Node], cores: usize) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let thp = status.lines().find_map(|line| line.strip_prefix("THP_enabled:")).unwrap();
    let mut placed = Vec::new();
    for executor in found {
        assert_eq!(executor["thp"], thp.trim(), "{executor}");
        assert!(!executor["libraries"].to_string().contains("libnumapilot"), "{executor}");
        let policies = executor["policies"].as_array().unwrap();
        assert_eq!(policies.len(), 1, "{executor}");
        placed.push((text(&policies[0]), text(&executor["cpus"])));
    }
    let mut expected = Vec::new();
    for node in nodes {
        let cpus = node.cpus.intersection(&machine.allowed.cpus).to_string();
        expected.extend(vec![(format!("bind:{}", node.id), cpus); cores]);
    }
    placed.sort();
    expected.sort();
    assert_eq!(placed, expected);
}

/// Executors under the plan, as the kernel shows it.
fn are_under_the_plan(found: &[Value], machine: &Machine, allocator: &Path) {
    let memory = machine.memory_nodes().intersection(&machine.allowed.nodes);
    let policy = format!("interleave:{memory}");
    for executor in found {
        assert_eq!(executor["thp"], "0", "{executor}");
        let has = |list: &str, what: &str| {
            executor[list].as_array().unwrap().iter().any(|value| value == what)
        };
        assert!(has("policies", &policy), "{executor}");
        assert!(has("libraries", allocator.to_str().unwrap()), "{executor}");
    }
}

/// What each executor attests below a directory: every setting of the plan is in effect.
fn attest_the_plan(directory: &Path, machine: &Machine, executors: usize) {
    let run = fs::read_dir(directory).unwrap().next().unwrap().unwrap().path();
    let files = fs::read_dir(run).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension() == Some(OsStr::new("json")));
    let attested: Vec<Value> =
        files.map(|path| serde_json::from_slice(&fs::read(path).unwrap()).unwrap()).collect();
    assert_eq!(attested.len(), executors, "{attested:?}");
    for attestation in &attested {
        let settings = attestation["settings"].as_array().unwrap();
        let expected = ["memory interleave", "CPUs", "allocator", "thp never"];
        assert_eq!(settings.len(), expected.len(), "{attestation}");
        for (setting, expected) in settings.iter().zip(expected) {
            assert!(setting["setting"].as_str().unwrap().starts_with(expected), "{attestation}");
            assert_eq!(setting["state"], "in-effect", "{attestation}");
        }
        assert_eq!(attestation["topology"], machine.topology_hash().to_string());
    }
}

#[test]
fn executors_run_on_their_node_and_attest_the_plan() {
    let (spark, tables) = match (Spark::find(), Tables::make()) {
        (Ok(spark), Ok(tables)) => (spark, tables),
        (Err(reason), _) | (_, Err(reason)) => {
            println!("skipped: {reason}");
            return;
        }
    };
    let machine = numapilot_topology::read(Path::new("/")).unwrap();
    let nodes = nodes(&machine);
    // At least two, so that one of them could lack the plan.
    let cores = if nodes.len() == 1 { 2 } else { 1 };
    let executors = cores * nodes.len();

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (workers, profile, attest) = (path("workers.toml"), path("executors.toml"), path("attest"));
    fs::write(&workers, "[memory]\nmode = \"bind\"\n").unwrap();
    let allocator = Path::new(NUMAPILOT).with_file_name("libnumapilot_alloc.so");
    let plan = format!(
        "allocator = \"{}\"\ncpu-nodes = \"+0\"\nthp = \"never\"\n[memory]\nmode = \"interleave\"\n",
        allocator.display()
    );
    fs::write(&profile, plan).unwrap();
    let mut cluster = Cluster::start(&spark, folder.path());
    cluster.start_workers(&workers, nodes.len(), cores);

    let application =
        Application { tables: &tables, executors, profile: &profile, attest: &attest };
    // A Java home of the application's own replaces the one that leads to numapilot, so its
    // executors attest nothing.
    let own = format!("spark.executorEnv.JAVA_HOME={}", spark.java_home.display());
    let output = cluster.submit(&application, &["--conf", &own]);
    assert_eq!(output.status.code(), Some(125), "{}", err(&output));
    assert!(err(&output).contains("--via spark: no attestation: "), "{}", err(&output));
    inherit_from_workers(&report(&output, &tables, executors), &machine, &nodes, cores);

    fs::remove_dir_all(&attest).unwrap();
    let output = cluster.submit(&application, &[]);
    assert!(output.status.success(), "{}", err(&output));
    are_under_the_plan(&report(&output, &tables, executors), &machine, &allocator);
    attest_the_plan(&attest, &machine, executors);
    cluster.stop();
}
