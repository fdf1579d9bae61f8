//! Plans on machines of several nodes: the real location of pages and threads. All cases of a
//! machine share one boot.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

use crate::guests::{NUMAPILOT, boots, compiled, err};

/// Pages in 16 MiB.
const PAGES: u64 = 4096;

/// The output of one case.
#[derive(Debug, Default)]
struct Case {
    /// Lines of both streams.
    lines: Vec<String>,
}

impl Case {
    /// The policy of each printed mapping, and its pages by node.
    fn mappings(&self) -> Vec<(String, BTreeMap<u32, u64>)> {
        let lines = self.lines.iter().filter_map(|line| line.strip_prefix("pages "));
        lines
            .map(|line| {
                let mut words = line.split_whitespace();
                let policy = words.next().unwrap().to_owned();
                let nodes = words.filter_map(|word| {
                    let (node, pages) = word.strip_prefix('N')?.split_once('=')?;
                    Some((node.parse().ok()?, pages.parse().ok()?))
                });
                (policy, nodes.collect())
            })
            .collect()
    }

    /// Pages by node of the only mapping.
    fn pages(&self) -> BTreeMap<u32, u64> {
        let mappings = self.mappings();
        assert_eq!(mappings.len(), 1, "{self:?}");
        assert_eq!(mappings[0].1.values().sum::<u64>(), PAGES, "{self:?}");
        mappings[0].1.clone()
    }

    /// CPUs of the main threads.
    fn cpus(&self) -> Vec<u32> {
        let lines = self.lines.iter().filter_map(|line| line.strip_prefix("cpu "));
        lines.map(|cpu| cpu.parse().unwrap()).collect()
    }

    /// CPUs of all threads, in the order of their creation.
    fn threads(&self) -> Vec<u32> {
        let lines = self.lines.iter().filter_map(|line| line.rsplit_once("cpu "));
        lines.map(|(_, cpu)| cpu.parse().unwrap()).collect()
    }

    /// Asserts that all pages are on these nodes, evenly to within one page.
    fn evenly_on(&self, nodes: &[u32]) {
        let pages = self.pages();
        assert_eq!(pages.keys().copied().collect::<Vec<_>>(), nodes, "{self:?}");
        let each = PAGES / nodes.len() as u64;
        assert!(pages.values().all(|n| n.abs_diff(each) <= 1), "{self:?}");
    }
}

/// Runs the cases (a name, and a shell command) in one guest.
fn cases(machine: &[&str], cases: &[(&str, &str)]) -> Option<BTreeMap<String, Case>> {
    if !boots() {
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = compiled("pages.c", directory.path())?;
    let mut script = String::new();
    for (name, command) in cases {
        let command = command.replace("PAGES", program.to_str().unwrap());
        script += &format!("echo '== {name}'\n{command} 2>&1\necho \"status $?\"\n");
    }
    let file = directory.path().join("script");
    fs::write(&file, script).unwrap();
    let output = Command::new(NUMAPILOT)
        .args(["lab", "run", "--no-model", "--include", "cat", "--include"])
        .arg(&program)
        .args(machine)
        .args(["--", "sh"])
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let mut all = BTreeMap::new();
    let mut name = String::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        match line.strip_prefix("== ") {
            Some(next) => next.clone_into(&mut name),
            None => {
                let case: &mut Case = all.entry(name.clone()).or_default();
                case.lines.push(line.to_owned());
            }
        }
    }
    Some(all)
}

/// The node of a CPU of machine-a in the lab.
fn node(cpu: u32) -> u32 {
    cpu / 2
}

fn distinct(all: impl IntoIterator<Item = u32>) -> usize {
    all.into_iter().collect::<std::collections::BTreeSet<_>>().len()
}

#[test]
fn policies_and_threads_go_where_they_should_on_eight_nodes() {
    let weights = "0=3,1=1,2=1,3=1,4=1,5=1,6=1,7=1";
    let machine = ["--machine", "machine-a", "--numa-balancing", "on", "--weights", weights];
    let Some(all) = cases(
        &machine,
        &[
            ("interleave all", "numapilot run -i all -- PAGES 16"),
            ("interleave two", "numapilot run -i 1,3 -- PAGES 16"),
            ("interleave others", "numapilot run -i '!0' -- PAGES 16"),
            ("weighted", "numapilot run -w all -- PAGES 16"),
            ("bind", "numapilot run -m 2 -- PAGES 16"),
            ("nodes", "numapilot run -N 5 -- PAGES 16"),
            ("apart", "numapilot run -N 1 -m 6 -- PAGES 16"),
            ("cpus", "numapilot run -C 7 -l -- PAGES 16"),
            ("preferred", "numapilot run -p 3 -- PAGES 16"),
            ("preferred many", "numapilot run -P 6-7 -- PAGES 16"),
            ("first touch", "numapilot run -C 9 -- PAGES 16"),
            ("sparse", "numapilot run --threads sparse -- PAGES 1 7"),
            ("dense", "numapilot run --threads dense -- PAGES 1 3"),
            (
                "server",
                "numapilot run --threads sparse -- \
                 sh -c 'PAGES 1 0 3 & PAGES 1 0 3 & PAGES 1 0 3 & wait'",
            ),
            ("per node", "numapilot run --per-node -- PAGES 1"),
            ("balancing", "cat /proc/sys/kernel/numa_balancing"),
            ("balancing off", "numapilot run --numa-balancing off -C 4 -- PAGES 16"),
            ("no such node", "numapilot run -m 8 -- PAGES 1"),
        ],
    ) else {
        return;
    };
    let case = |name: &str| all.get(name).unwrap_or_else(|| panic!("{name}: {all:?}"));
    case("interleave all").evenly_on(&[0, 1, 2, 3, 4, 5, 6, 7]);
    case("interleave two").evenly_on(&[1, 3]);
    let others = case("interleave others").pages();
    assert!(!others.contains_key(&0) && others.len() == 7, "{others:?}");
    let weighted = case("weighted").pages();
    assert!(weighted[&0].abs_diff(PAGES * 3 / 10) <= 3, "{weighted:?}");
    assert!((1..8).all(|n| weighted[&n].abs_diff(PAGES / 10) <= 3), "{weighted:?}");
    case("bind").evenly_on(&[2]);
    case("nodes").evenly_on(&[5]);
    assert_eq!(node(case("nodes").cpus()[0]), 5);
    case("apart").evenly_on(&[6]);
    assert_eq!(node(case("apart").cpus()[0]), 1);
    case("cpus").evenly_on(&[3]);
    assert_eq!(case("cpus").cpus(), [7]);
    case("preferred").evenly_on(&[3]);
    let many = case("preferred many").pages();
    assert!(many.keys().all(|n| [6, 7].contains(n)), "{many:?}");
    case("first touch").evenly_on(&[4]);

    let sparse = case("sparse").threads();
    assert_eq!(sparse.len(), 8, "{:?}", case("sparse"));
    assert_eq!(distinct(sparse.iter().map(|cpu| node(*cpu))), 8, "{sparse:?}");
    let dense = case("dense").threads();
    assert_eq!(dense.len(), 4, "{:?}", case("dense"));
    assert_eq!(distinct(dense.iter().copied()), 4, "{dense:?}");
    assert_eq!(distinct(dense.iter().map(|cpu| node(*cpu))), 2, "{dense:?}");
    let server = case("server").cpus();
    assert_eq!(distinct(server.iter().map(|cpu| node(*cpu))), 3, "{server:?}");
    let per_node = case("per node");
    let mut nodes: Vec<u32> = per_node.cpus().into_iter().map(node).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, [0, 1, 2, 3, 4, 5, 6, 7], "{per_node:?}");
    assert_eq!(per_node.mappings().len(), 8);
    for (policy, pages) in per_node.mappings() {
        assert_eq!(pages.len(), 1, "{policy}: {per_node:?}");
    }
    assert_eq!(case("balancing").lines[0], "1");
    // AutoNUMA does not move memory that has an explicit local policy.
    let off = &case("balancing off").mappings()[0];
    assert!(off.0.starts_with("local"), "{off:?}");
    assert_eq!(off.1.keys().copied().collect::<Vec<_>>(), [2]);
    let refused = case("no such node");
    assert!(refused.lines.contains(&"status 125".to_owned()), "{refused:?}");
}

#[test]
fn memory_without_cpus_can_be_used_on_a_machine_that_has_it() {
    let Some(all) = cases(
        &["--machine", "cxl", "--numa-balancing", "off", "--weights", "0=3,1=1"],
        &[
            ("interleave all", "numapilot run -i all -- PAGES 16"),
            ("interleave memory", "numapilot run -i 1 -- PAGES 16"),
            ("weighted", "numapilot run -w all -- PAGES 16"),
            ("bind", "numapilot run -m 1 -- PAGES 16"),
            ("bind both", "numapilot run -m 0,1 -- PAGES 16"),
            ("bind balancing", "numapilot run -b -m 0,1 -- PAGES 16"),
            ("preferred", "numapilot run -p 1 -- PAGES 16"),
            ("preferred many", "numapilot run -P 1 -- PAGES 16"),
            ("first touch", "numapilot run -l -- PAGES 16"),
            ("CPUs here, memory there", "numapilot run -N 0 -m 1 -- PAGES 16"),
            ("one CPU", "numapilot run -C 3 -- PAGES 16"),
            ("sparse", "numapilot run --threads sparse -- PAGES 1 3"),
            ("no CPUs", "numapilot run -N 1 -- PAGES 1"),
            ("per node", "numapilot run --per-node -- PAGES 1"),
            ("balancing", "cat /proc/sys/kernel/numa_balancing"),
        ],
    ) else {
        return;
    };
    let case = |name: &str| all.get(name).unwrap_or_else(|| panic!("{name}: {all:?}"));
    case("interleave all").evenly_on(&[0, 1]);
    case("interleave memory").evenly_on(&[1]);
    let weighted = case("weighted").pages();
    assert!(weighted[&0].abs_diff(PAGES * 3 / 4) <= 3, "{weighted:?}");
    case("bind").evenly_on(&[1]);
    // Among several nodes, the nearest one with free memory is used.
    case("bind both").evenly_on(&[0]);
    case("bind balancing").evenly_on(&[0]);
    case("preferred").evenly_on(&[1]);
    case("preferred many").evenly_on(&[1]);
    case("first touch").evenly_on(&[0]);
    case("CPUs here, memory there").evenly_on(&[1]);
    case("one CPU").evenly_on(&[0]);
    assert_eq!(case("one CPU").cpus(), [3]);
    let sparse = case("sparse").threads();
    assert_eq!(distinct(sparse.iter().copied()), 4, "{sparse:?}");
    let refused = case("no CPUs");
    assert!(refused.lines.iter().any(|line| line.contains("has no CPU")), "{refused:?}");
    assert!(refused.lines.contains(&"status 125".to_owned()), "{refused:?}");
    let per_node = case("per node");
    assert_eq!(per_node.cpus().len(), 1, "{per_node:?}");
    assert_eq!(case("balancing").lines[0], "0");
}

#[test]
fn isolated_cpus_are_named_and_effects_are_seen_on_several_nodes() {
    let Some(all) = cases(
        &["--machine", "machine-a", "--append", "isolcpus=3,6,7"],
        &[
            ("refused", "numapilot run -C 3 -- PAGES 1"),
            ("node of isolated CPUs", "numapilot run -N 3 -- PAGES 1"),
            ("all", "numapilot run -a -C 3 -- PAGES 1"),
            ("all of a node", "numapilot run -a -N 3 -- PAGES 1"),
            ("bind", "numapilot run -v -m 2 -C 4 -- PAGES 1 0 2"),
            ("weighted", "numapilot run -v -w 1,3 -- PAGES 1 0 2"),
            ("off", "numapilot run -v --numa-balancing off -- PAGES 1 0 2"),
            ("undone", "numapilot run --strict -i all -- numapilot run -m 1 -- PAGES 1 0 8"),
            ("doctor", "numapilot doctor"),
        ],
    ) else {
        return;
    };
    let case = |name: &str| all.get(name).unwrap_or_else(|| panic!("{name}: {all:?}"));
    let says = |name: &str, text: &str| {
        assert!(
            case(name).lines.iter().any(|line| line.contains(text)),
            "{text}: {:?}",
            case(name)
        );
    };
    for name in ["refused", "node of isolated CPUs"] {
        says(name, "isolated from the scheduler since boot (isolcpus=)");
        says(name, "-a (--all)");
        says(name, "status 125");
    }
    assert_eq!(case("all").cpus(), [3]);
    assert_eq!(node(case("all of a node").cpus()[0]), 3);
    says("bind", "memory bind 2: in effect (bind:2)");
    says("bind", "CPUs 4: in effect (all 1 threads)");
    says("weighted", "in effect (weighted interleave:1,3)");
    says("off", "numa-balancing off: in effect");
    says("undone", "has the policy bind:1, not interleave:0-7");
    says("undone", "status 125");
    says("doctor", "are isolated");
}
