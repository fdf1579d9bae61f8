//! Tests of the shipped descriptions, and of the ways in which a description can be wrong.

use numapilot_test_kit::damaged;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::CpuId;
use crate::routes::Routes;

fn machine(name: &str) -> Machine {
    machine_named(name).unwrap()
}

#[test]
fn every_shipped_machine_is_read_and_survives_writing() {
    for (name, text) in SHIPPED {
        let description = Description::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(description.lab.is_some(), "{name} cannot be emulated");
        let written = description.to_toml().unwrap();
        assert_eq!(Description::parse(&written).unwrap(), description, "{name}\n{written}");
        let machine = description.machine(name).unwrap();
        let (n, nodes) = (machine.nodes.len(), machine.memory_nodes());
        assert_eq!(machine.name, *name);
        assert_eq!(machine.allowed.nodes, nodes);
        assert_eq!(machine.distances.len(), n);
        for (i, node) in machine.nodes.iter().enumerate() {
            for j in 0..n {
                assert_eq!(machine.distances[i][j], machine.distances[j][i], "{name}");
                assert_eq!(machine.figures.latency_ns[i][j].is_some(), !node.cpus.is_empty());
            }
        }
    }
}

#[test]
fn files_and_table_of_shipped_machines_agree() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../machines");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    files.sort();
    assert_eq!(files, SHIPPED.iter().map(|(name, _)| *name).collect::<Vec<_>>());
}

/// Table 3 of systematic-numa-study.
#[test]
fn machines_a_b_c_have_the_papers_figures() {
    let figures = |name| {
        let m = machine(name);
        let mut relative: Vec<i64> = m.figures.latency_ns[0]
            .iter()
            .map(|ns| (10.0 * ns.unwrap() / m.figures.latency_ns[0][0].unwrap()).round() as i64)
            .collect();
        relative.sort_unstable();
        relative.dedup();
        (m.nodes.len(), m.cpus.len(), m.nodes[0].memory_bytes >> 30, relative)
    };
    assert_eq!(figures("machine-a"), (8, 16, 16, vec![10, 12, 14, 16]));
    assert_eq!(figures("machine-b"), (4, 32, 16, vec![10, 11]));
    assert_eq!(figures("machine-c"), (4, 64, 768, vec![10, 21]));
}

#[test]
fn machine_a_is_the_twisted_ladder_its_firmware_states() {
    let m = machine("machine-a");
    assert_eq!(m.distances[0], [10, 12, 12, 14, 14, 14, 14, 16]);
    assert_eq!(m.distances[7], [16, 14, 14, 14, 14, 12, 12, 10]);
    let links: Vec<_> =
        m.links.iter().map(|l| (l.from.0 as usize, l.to.0 as usize, l.gb_per_s)).collect();
    let routes = Routes::new(8, &links);
    assert_eq!((0..8).filter(|i| routes.hops(*i, 7 - *i) == Some(3)).count(), 2);
    for i in 0..8 {
        assert!(links.iter().filter(|(a, b, _)| *a == i || *b == i).count() <= 3, "node {i}");
    }
}

#[test]
fn xeon_8153_has_two_groups_at_most_two_hops_apart() {
    let m = machine("xeon-8153");
    assert_eq!(m.distances[0], [10, 21, 21, 21, 21, 31, 31, 31]);
    assert_eq!(m.cpus.len(), 256);
    assert_eq!(m.cpu(CpuId(0)).unwrap().siblings.to_string(), "0,128");
}

#[test]
fn a_cxl_node_has_memory_a_distance_and_no_row() {
    let m = machine("cxl");
    assert!(m.nodes[1].cpus.is_empty());
    assert_eq!(m.figures.latency_ns, [[Some(110.0), Some(250.0)], [None, None]]);
    assert_eq!(m.figures.bandwidth_gb_per_s[0], [Some(307.2), Some(32.0)]);
    assert_eq!(m.distances, [[10, 23], [23, 10]]);
}

#[test]
fn caches_are_shared_as_described() {
    let m = machine("threadripper-1950x");
    let l3: Vec<String> =
        m.caches.iter().filter(|c| c.level == 3).map(|c| c.cpus.to_string()).collect();
    assert_eq!(l3, ["0-3,16-19", "4-7,20-23", "8-11,24-27", "12-15,28-31"]);
    assert_eq!(m.cpu(CpuId(31)).unwrap().package, Some(0));
    let l3 = machine("epyc-9004-nps4").caches.iter().filter(|c| c.level == 3).count();
    assert_eq!(l3, 24);
}

/// A small description that each test breaks in one place.
const SMALL: &str = r#"
title = "two nodes"
source = "a test"
[processor]
model = "test"
ghz = 2.0
source = "a test"
[[caches]]
level = 1
size = "32 KiB"
ways = 8
line_bytes = 64
shared_by = "core"
source = "a test"
[[nodes]]
ids = "0-1"
cores = 2
memory = "1 GiB"
latency_ns = 100
bandwidth_gb_per_s = 10
source = "a test"
[[links]]
between = [[0, 1]]
bandwidth_gb_per_s = 5
source = "a test"
[distances]
hop_factors = [1, 2]
source = "a test"
"#;

fn refusal(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "nothing to break: {from}");
    match Description::parse(&SMALL.replacen(from, to, 1)) {
        Ok(_) => panic!("accepted: {to}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_wrong_description_says_where_why_and_what_would_be_right() {
    Description::parse(SMALL).unwrap();
    let broken = [
        ("ghz = 2.0\nsource = \"a test\"", "ghz = 2.0\nsource = { model = \"a test\" }"),
        ("ghz = 2.0\nsource = \"a test\"", "ghz = 2.0\nsource = { gzh = \"x\", other = \"y\" }"),
        ("ghz = 2.0\nsource = \"a test\"", "ghz = 2.0\nsource = \"\""),
        ("ghz = 2.0", "ghz = 2000.0"),
        ("ghz = 2.0", "ghz = nan"),
        ("\"32 KiB\"", "\"32.25 KiB\""),
        ("shared_by = \"core\"", "shared_by = \"3 cores\""),
        ("memory = \"1 GiB\"", "memory = \"0 B\""),
        ("cores = 2\nmemory = \"1 GiB\"", "cores = 0"),
        ("cores = 2", "cores = 4000000000"),
        ("cores = 2", "cores = 8192"),
        ("ids = \"0-1\"", "ids = \"0-2\""),
        ("between = [[0, 1]]", "between = [[0, 7]]"),
        ("between = [[0, 1]]", "between = [[0, 1], [1, 0]]"),
        ("hop_factors = [1, 2]", "hop_factors = [1]"),
        ("hop_factors = [1, 2]", "hop_factors = [1, 0.5]"),
        ("hop_factors = [1, 2]", "latency_ns = [[100, 200], [200]]"),
        ("hop_factors = [1, 2]", "latency_ns = [[100, 200, 1]]"),
        ("hop_factors = [1, 2]", "latency_ns = [[100, 200], [900, 100]]"),
        ("hop_factors = [1, 2]", "latency_ns = [[100, 200], [200, 100]]"),
        ("hop_factors = [1, 2]", "hop_factors = [1, 2]\nslit = [[10, 20], [21, 10]]"),
        ("latency_ns = 100\n", ""),
        ("[distances]\nhop_factors = [1, 2]\nsource = \"a test\"\n", ""),
    ];
    let messages: Vec<String> = broken.iter().map(|(from, to)| refusal(from, to)).collect();
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn a_mistyped_key_is_shown_in_its_line() {
    insta::assert_snapshot!(refusal("ghz = 2.0", "gzh = 2.0"));
    insta::assert_snapshot!(refusal("\"32 KiB\"", "\"32 KB\""));
}

#[test]
fn unknown_names_and_missing_files_are_distinguished() {
    let error = named("machine-d").unwrap_err().to_string();
    assert!(error.starts_with("no machine is named 'machine-d'; name a description file or"));
    assert!(error.contains("machine-a"));
    let error = named("missing/machine.toml").unwrap_err().to_string();
    assert!(error.contains("cannot read machine description missing/machine.toml: No such file"));
}

#[test]
fn listed_cpus_keep_their_order() {
    let text = SMALL.replace("ids = \"0-1\"\ncores = 2", "ids = \"0\"\ncores = 2\nthreads_per_core = 2\ncpus = \"4,6,5,7\"")
        .replace("[[links]]", "[[nodes]]\nids = \"1\"\ncores = 1\ncpus = \"9\"\nmemory = \"1 GiB\"\nlatency_ns = 1\nbandwidth_gb_per_s = 1\nsource = \"x\"\n[[links]]");
    let m = Description::parse(&text).unwrap().machine("m").unwrap();
    assert_eq!(m.cpu(CpuId(4)).unwrap().siblings.to_string(), "4-5");
    assert_eq!(m.nodes[1].cpus.to_string(), "9");
}

/// The result of a perfect measurement of a machine.
fn measurement_of(machine: &Machine) -> crate::measure::Measurement {
    use crate::measure::{Loaded, LoadedPoint, Measurement, Sample};
    let sample = |v: f64| Sample { median: v, low: v, high: v };
    let matrix = |m: &[Vec<Option<f64>>]| -> Vec<Vec<Option<Sample>>> {
        m.iter().map(|row| row.iter().map(|v| v.map(sample)).collect()).collect()
    };
    Measurement {
        latency_ns: matrix(&machine.figures.latency_ns),
        bandwidth_gb_per_s: matrix(&machine.figures.bandwidth_gb_per_s),
        loaded_latency: vec![Loaded {
            node: machine.nodes[0].id,
            points: vec![LoadedPoint { gb_per_s: 1.0, latency_ns: sample(99.0) }],
        }],
        cpu_share: None,
        memory: Vec::new(),
        unsupported: Vec::new(),
    }
}

#[test]
fn a_saved_measurement_is_the_machine_again() {
    for (name, _) in SHIPPED {
        let mut before = machine(name);
        for row in before.figures.latency_ns.iter_mut().flatten().flatten() {
            *row = row.round();
        }
        let saved = Description::measured(&before, &measurement_of(&before), "2026-01-31").unwrap();
        let text = saved.to_toml().unwrap();
        let after = Description::parse(&text).unwrap().machine(name).unwrap();
        assert_eq!(after.nodes, before.nodes, "{name}");
        assert_eq!(after.cpus, before.cpus, "{name}");
        assert_eq!(after.caches, before.caches, "{name}");
        assert_eq!(after.distances, before.distances, "{name}");
        assert_eq!(after.figures.latency_ns, before.figures.latency_ns, "{name}");
        assert_eq!(after.figures.bandwidth_gb_per_s, before.figures.bandwidth_gb_per_s, "{name}");
    }
}

#[test]
fn a_measurement_with_a_hole_is_not_saved() {
    let m = machine("machine-b");
    let mut holed = measurement_of(&m);
    holed.latency_ns[1][2] = None;
    let error = Description::measured(&m, &holed, "today").unwrap_err().to_string();
    assert!(error.contains("could not be measured from node 1 to node 2"), "{error}");
}

proptest! {
    #[test]
    fn a_damaged_file_is_read_or_refused(text in select(SHIPPED).prop_flat_map(|s| damaged(s.1))) {
        if let Ok(description) = Description::parse(&text) {
            description.machine("damaged").unwrap();
        }
    }

    /// Absurd figures are always refused and never cause a crash.
    #[test]
    fn absurd_numbers_are_refused(value in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), 1e9..1e300]) {
        for key in ["latency_ns = 100", "bandwidth_gb_per_s = 5", "ghz = 2.0", "bandwidth_gb_per_s = 10"] {
            let name = key.split(' ').next().unwrap();
            let text = SMALL.replacen(key, &format!("{name} = {value:?}").replace("NaN", "nan"), 1);
            prop_assert!(Description::parse(&text).is_err(), "{}", text);
        }
    }
}
