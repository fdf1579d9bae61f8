//! Every machine boots, and the guest sees the machine of the description.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use numapilot_lab::Shape;
use numapilot_topology::description::{SHIPPED, named};

use crate::guests::{NUMAPILOT, boots, err, lab};

/// Prints the machine as the kernel sees it; the last lines are from the HMAT.
const SCRIPT: &str = "numactl -H; \
    for n in /sys/devices/system/node/node[0-9]*; do \
    for f in latency bandwidth; do \
    echo ${n##*/} $f $(cat $n/access0/initiators/read_$f 2> /dev/null); done; done";

/// The expected output of `numactl -H` for a machine of this shape, without the memory sizes.
fn expected(shape: &Shape) -> String {
    let mut text =
        format!("available: {} nodes (0-{})\n", shape.nodes.len(), shape.nodes.len() - 1);
    for (i, node) in shape.nodes.iter().enumerate() {
        let cpus: String = node.cpus.clone().map(|cpu| format!(" {cpu}")).collect();
        let _ = writeln!(text, "node {i} cpus:{cpus}");
    }
    text += "node distances:\n";
    for (i, row) in shape.distances.iter().enumerate() {
        let row: Vec<String> = row.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "{i}: {}", row.join(" "));
    }
    text.replace("available: 1 nodes (0-0)", "available: 1 nodes (0)")
}

/// Checks that the guest sees the machine of the description.
fn check(name: &str) {
    let (_, description) = named(name).unwrap();
    let shape = Shape::new(name, &description).unwrap();
    let output = Command::new(NUMAPILOT)
        .args(["lab", "run", "--no-model", "-m", name, "--", "sh", "-c", SCRIPT])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{name}: {}", err(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let (mut seen, mut sizes, mut figures) = (String::new(), Vec::new(), BTreeMap::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["node", _, "size:", mib, "MB"] => sizes.push(mib.parse::<u64>().unwrap()),
            ["node", _, "free:", ..] => {}
            // The heading of the distance table.
            ["node", ref ids @ ..] if ids.iter().all(|id| id.parse::<u32>().is_ok()) => {}
            [node, what @ ("latency" | "bandwidth"), value] => {
                figures.insert((node.to_owned(), what), value.parse::<f64>().unwrap());
            }
            _ => seen += &(words.join(" ") + "\n"),
        }
    }
    assert_eq!(seen, expected(&shape), "{name}");
    for (number, (mib, node)) in sizes.iter().zip(&shape.nodes).enumerate() {
        // The kernel reserves some memory, most of it on the first nodes. The first node has memory
        // for the guest's files as well.
        let whole = node.memory_bytes >> 20;
        let files = if number == 0 { FILES_MIB } else { 0 };
        assert!((whole / 2..=whole + files).contains(mib), "{name}: {mib} MiB of {whole}");
    }
    assert_eq!(sizes.len(), shape.nodes.len(), "{name}");
    latencies(name, &shape, &figures);
}

/// Upper bound of the guest's files, with those that it may write.
const FILES_MIB: u64 = 320;

/// The HMAT's values are those of the nearest CPUs, within the table's resolution.
fn latencies(name: &str, shape: &Shape, figures: &BTreeMap<(String, &str), f64>) {
    for node in 0..shape.nodes.len() {
        let nearest = shape.initiators().min_by_key(|from| shape.distances[*from][node]).unwrap();
        let mib_per_s = shape.bandwidth_gb_per_s[nearest][node].map(|rate| rate * 1e9 / 1048576.0);
        for (what, known, tolerance) in
            [("latency", shape.latency_ns[nearest][node], 1.0), ("bandwidth", mib_per_s, 64.0)]
        {
            let seen = figures.get(&(format!("node{node}"), what));
            let (Some(known), Some(seen)) = (known, seen) else {
                panic!("{name}: node {node} has no {what}: {figures:?}");
            };
            assert!((known - seen).abs() <= tolerance, "{name}, node {node}, {what}: {seen}");
        }
    }
}

#[test]
fn every_machine_boots_and_is_as_described() {
    if !boots() {
        return;
    }
    if Command::new("numactl").arg("-H").output().is_err() {
        println!("skipped: numactl is not installed; Debian: apt-get install numactl");
        return;
    }
    // Two machines run at a time.
    let waiting = Mutex::new(SHIPPED.iter().map(|(name, _)| *name));
    let next = || waiting.lock().unwrap().next();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(name) = next() {
                    check(name);
                }
            });
        }
    });
}

#[test]
fn every_machine_is_listed() {
    let output = lab(&["list"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for (name, _) in SHIPPED {
        assert!(text.lines().any(|line| line.trim_start().starts_with(name)), "{name}");
    }
    let json: serde_json::Value = serde_json::from_slice(&lab(&["list", "--json"]).stdout).unwrap();
    assert_eq!(json[0]["name"], "cxl");
    assert_eq!((&json[0]["nodes"], &json[0]["lab_cpus"]), (&2.into(), &4.into()));
}
