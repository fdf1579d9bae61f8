use numapilot_observe::{Figures, Metric};
use numapilot_topology::NodeId;

use super::*;
use crate::verbs::top::state::{Link, Node};

/// A recorded moment of a program on two nodes of an emulated machine.
fn recorded() -> State {
    let gib = |n: u64| n << 30;
    let node = |id, used, target, allocated_local, allocated_remote| Node {
        id: NodeId(id),
        cpus: 16,
        memory_bytes: gib(64),
        used_bytes: Some(gib(used)),
        target_bytes: Some(target),
        allocated_local,
        allocated_remote,
    };
    let region = |start, bytes, name: &str, samples: &[(u32, f64)]| Region {
        start,
        bytes,
        name: name.to_owned(),
        samples: samples.iter().map(|(node, n)| (NodeId(*node), *n)).collect(),
    };
    State {
        target: "postgres (1234) and 2 more".to_owned(),
        figures: Figures::from([
            (Metric::Seconds, Ok(2.0)),
            (Metric::CpusUtilized, Ok(12.34)),
            (Metric::RssBytes, Ok(3e9)),
            (Metric::MinorFaults, Ok(2e6)),
            (Metric::LocalAccessRatio, Ok(0.61)),
            (Metric::ControllerImbalance, Ok(0.4)),
            (Metric::Maptu, Ok(81.5)),
            (Metric::LinkUsage, Err("no counter".to_owned())),
            (Metric::DramLatencySeconds, Ok(131e-9)),
            (Metric::CpuMigrations, Ok(7.0)),
            (Metric::NumaPagesMigrated, Ok(512.0)),
            (Metric::NumaHintFaults, Ok(40_000.0)),
        ]),
        nodes: vec![node(0, 63, gib(2), 900_000, 12), node(1, 8, 1 << 29, 8_000, 120_000)],
        moved_pages: Ok(2048.0),
        traffic: Ok(vec![vec![90_000_000, 4_000_000], vec![55_000_000, 14_000_000]]),
        links: Ok(vec![Link { between: "0-1".to_owned(), usage: 0.72 }]),
        regions: Ok(vec![
            region(0x5500_0000_0000, gib(1), "[heap]", &[(0, 20.0), (1, 300.0)]),
            region(0x7f00_0000_0000, 1 << 21, "shared", &[(0, 500.0), (1, 500.0)]),
        ]),
    }
}

/// The state on a machine with few figures.
fn poor() -> State {
    let why = || "no counter of accesses by node pair here".to_owned();
    State {
        figures: Figures::from([(Metric::Seconds, Ok(1.0))]),
        nodes: vec![Node { used_bytes: None, target_bytes: None, ..recorded().nodes[0].clone() }],
        moved_pages: Err(why()),
        traffic: Err(why()),
        links: Err(why()),
        regions: Err("name a process: -p PID".to_owned()),
        target: "the machine".to_owned(),
    }
}

fn plain(lines: &[String]) -> String {
    anstream::adapter::strip_str(&lines.join("\n")).to_string()
}

#[test]
fn a_screen_of_80_by_24() {
    insta::assert_snapshot!(plain(&window(&recorded(), Order::Samples, false, (80, 24))));
}

#[test]
fn traffic_is_by_simulated_seconds_where_there_are_any() {
    let row = |state: &State| {
        let text = plain(&text(state, Order::Samples));
        let row = text.lines().skip_while(|line| !line.starts_with("TRAFFIC")).nth(1);
        row.and_then(|row| row.split_whitespace().nth(1)).map(str::to_owned)
    };
    let mut state = recorded();
    let by_host = row(&state).unwrap();
    // The guest's time was a hundredth of the host's.
    state.figures.insert(Metric::SimulatedSeconds, Ok(0.02));
    state.traffic = Ok(vec![vec![900_000, 0], vec![0, 0]]);
    assert_eq!(row(&state).unwrap(), by_host);
    state.figures.insert(Metric::SimulatedSeconds, Ok(0.0));
    assert_ne!(row(&state).unwrap(), by_host);
}

#[test]
fn what_is_not_known_is_reported() {
    insta::assert_snapshot!(plain(&text(&poor(), Order::Samples)));
}

#[test]
fn regions_come_in_the_order_that_is_asked_for() {
    let first = |order| {
        let text = plain(&text(&recorded(), order));
        let at = |name: &str| text.find(name).unwrap();
        if at("[heap]") < at("shared") { "[heap]" } else { "shared" }
    };
    assert_eq!(first(Order::Samples), "shared");
    assert_eq!(first(Order::Samples.next()), "[heap]");
    assert_eq!(first(Order::Samples.next().next()), "[heap]");
    assert_eq!(Order::Samples.next().next().next(), Order::Samples);
}

#[test]
fn every_size_is_filled_and_none_overflows() {
    for state in [recorded(), poor()] {
        for (width, height) in [(1, 1), (5, 3), (40, 10), (80, 24), (80, 1), (300, 100), (0, 0)] {
            let lines = window(&state, Order::Size, true, (width, height));
            assert!(lines.len() <= usize::from(height), "{width}x{height}");
            for line in plain(&lines).lines() {
                assert!(line.chars().count() <= usize::from(width), "{width}x{height}: {line}");
            }
        }
    }
    let small = plain(&window(&recorded(), Order::Size, true, (80, 8)));
    assert!(small.contains("PAUSED") && small.contains("lines more"), "{small}");
}

#[test]
fn a_narrow_window_has_whole_columns_and_says_what_is_left_out() {
    let narrow = |state: &State, size| plain(&window(state, Order::Samples, false, size));
    insta::assert_snapshot!(narrow(&recorded(), (60, 20)));
    insta::assert_snapshot!(narrow(&recorded(), (40, 20)));
    insta::assert_snapshot!(narrow(&poor(), (40, 12)));
    let eight = State {
        nodes: (0..8).map(|id| Node { id: NodeId(id), ..recorded().nodes[0].clone() }).collect(),
        traffic: Ok(vec![vec![90_000_000; 8]; 8]),
        ..recorded()
    };
    let text = narrow(&eight, (60, 40));
    let head = text.lines().find(|line| line.starts_with("TRAFFIC")).unwrap();
    assert!(head.ends_with("       5"), "{text}");
    assert!(text.contains("4 columns more"), "{text}");
}

#[test]
fn what_is_cut_off_says_so() {
    assert_eq!(clip("abcdef", 6), "abcdef");
    assert_eq!(clip("abcdef", 4), "abc…");
    assert_eq!(plain(&[clip(&format!("{BOLD}abcdef{BOLD:#}"), 4)]), "abc…");
    assert_eq!(clip("abc", 0), "");
}
