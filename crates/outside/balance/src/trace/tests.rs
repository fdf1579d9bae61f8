//! Traces are read as written, cut traces are reported, and the same trace gives the same orders.

use numapilot_test_kit::damaged_bytes;
use numapilot_topology::{Machine, NodeId};
use proptest::prelude::*;

use super::*;
use crate::adaptive::Settings;
use crate::decision::Why;
use crate::evidence::{Access, Page};
use crate::paper::Spread;
use crate::simulator::Simulated;
use crate::target::Target;

const SECOND_NS: u64 = 1_000_000_000;

fn header(setup: Setup) -> Header {
    Header { nodes: Nodes::of(&Machine::uniform(2, 1)), setup }
}

fn setups() -> [Setup; 2] {
    [Setup::Default(Settings::default()), Setup::Paper { spread: Spread::Complement, seed: 3 }]
}

/// Records some intervals of a process whose pages are all on node 0 and used from both nodes.
fn record(setup: Setup) -> Vec<u8> {
    let header = header(setup);
    let mut bytes = Vec::new();
    let mut writer = Writer::begin(&mut bytes, &header).unwrap();
    let mut memory = Simulated::default();
    memory.homes = (0..200).map(|page| (Page(page), NodeId(0))).collect();
    memory.page_move_ns = 700;
    let mut target = Target::new(memory, setup.begin(&header.nodes));
    for at in 1..6u64 {
        let accesses = (0..200u64).flat_map(|page| {
            let home = target.memory.homes[&Page(page)];
            let users = if page < 100 { vec![1; 6] } else { vec![0, 1, 0, 1] };
            users.into_iter().map(move |from| Access {
                page: Page(page),
                from: NodeId(from),
                home,
                write: true,
                huge: false,
                latency_ns: None,
            })
        });
        let evidence = Evidence {
            duration_ns: SECOND_NS,
            accesses: accesses.collect(),
            accesses_per_sample: Some(100_000.0),
            memory_used: 0.5,
            usable: [NodeId(0), NodeId(1)].into_iter().collect(),
            ..Evidence::default()
        };
        let now_ns = at * SECOND_NS;
        let interval = target.interval(&header.nodes, &evidence, now_ns, false, || false);
        let done = interval.done.map(|done| (done.moved, done.took_ns));
        let orders = interval.decision.orders;
        writer.add(&Recorded { pid: 7, now_ns, evidence, orders, done }).unwrap();
    }
    assert!(target.memory.moves() > 0, "nothing was recorded that could differ");
    writer.end().unwrap();
    bytes
}

fn replay(bytes: &[u8]) -> Result<usize, TraceError> {
    let mut replay = Replay::new(Reader::begin(bytes)?);
    let mut intervals = 0;
    while replay.step()?.is_some() {
        intervals += 1;
    }
    Ok(intervals)
}

#[test]
fn the_same_trace_gives_the_same_orders() {
    for setup in setups() {
        let bytes = record(setup);
        assert_eq!(replay(&bytes).unwrap(), 5);
        let accesses = 5 * (100 * 6 + 100 * 4);
        assert!(bytes.len() < accesses * 6, "{} bytes of {accesses} accesses", bytes.len());
    }
}

#[test]
fn a_trace_that_is_cut_says_so() {
    let bytes = record(setups()[0]);
    let mut reader = Reader::begin(&bytes[..]).unwrap();
    let header = bytes.len() - reader.file.len();
    assert_eq!(reader.header(), &self::header(setups()[0]));
    let mut whole = 0;
    let mut ends = Vec::new();
    while reader.read().unwrap().is_some() {
        whole += 1;
        ends.push((bytes.len() - reader.file.len(), whole));
    }
    for &(end, whole) in &ends {
        for cut in [end, end + 3] {
            let error = replay(&bytes[..cut]).unwrap_err();
            assert!(matches!(error, TraceError::Truncated { intervals } if intervals == whole));
        }
    }
    assert!(matches!(replay(b""), Err(TraceError::NoTrace)));
    assert!(matches!(replay(b"not a trace at all"), Err(TraceError::NoTrace)));
    assert!(matches!(replay(&bytes[..header - 5]), Err(TraceError::Truncated { intervals: 0 })));
    let mut newer = bytes;
    newer[MAGIC.len()] = 9;
    assert!(matches!(replay(&newer), Err(TraceError::Version(9))));
}

#[test]
fn orders_that_are_not_those_of_the_recording_are_reported() {
    let header = header(setups()[0]);
    let mut bytes = Vec::new();
    let mut writer = Writer::begin(&mut bytes, &header).unwrap();
    let order = Order { start: Page(1), pages: 1, to: NodeId(1), why: Why::Collocate };
    writer.add(&Recorded { pid: 5, orders: vec![order], ..Recorded::default() }).unwrap();
    writer.end().unwrap();
    let error = replay(&bytes).unwrap_err();
    assert!(
        matches!(error, TraceError::Differs { interval: 1, pid: 5, now: 0, then: 1 }),
        "{error}"
    );
}

fn any_recorded() -> impl Strategy<Value = Recorded> {
    let node = || (0u32..2).prop_map(NodeId);
    let access =
        (0u64..1 << 52, node(), node(), any::<bool>(), any::<bool>(), any::<Option<u32>>())
            .prop_map(|(page, from, home, write, huge, latency_ns)| Access {
                page: Page(page),
                from,
                home,
                write,
                huge,
                latency_ns,
            });
    let order = (0u64..1 << 52, any::<u32>(), node()).prop_map(|(page, pages, to)| Order {
        start: Page(page),
        pages,
        to,
        why: Why::Undo,
    });
    let moved = (0u64..1 << 52, node(), node()).prop_map(|(page, from, to)| Moved {
        page: Page(page),
        from,
        to,
    });
    let some = |what| proptest::collection::vec(what, 0..20);
    let done = proptest::option::of((proptest::collection::vec(moved, 0..20), any::<u64>()));
    let orders = proptest::collection::vec(order, 0..20);
    (any::<i32>(), any::<u64>(), some(access), orders, done, proptest::option::of(0.0..1e9))
        .prop_map(|(pid, now_ns, accesses, orders, done, accesses_per_sample)| {
            let evidence = Evidence {
                duration_ns: now_ns / 2,
                accesses,
                accesses_per_sample,
                memory_used: 0.25,
                usable: [NodeId(1)].into_iter().collect(),
                ..Evidence::default()
            };
            Recorded { pid, now_ns, evidence, orders, done }
        })
}

proptest! {
    #[test]
    fn what_is_written_is_read(recorded in any_recorded()) {
        prop_assert_eq!(codec::decode(&codec::encode(&recorded), 2), Some(recorded));
    }

    #[test]
    fn a_damaged_interval_is_read_or_refused(
        bytes in any_recorded().prop_flat_map(|recorded| damaged_bytes(codec::encode(&recorded))),
    ) {
        if let Some(recorded) = codec::decode(&bytes, 2) {
            // Compared as bytes: a damaged figure may be NaN.
            let bytes = codec::encode(&recorded);
            prop_assert_eq!(codec::decode(&bytes, 2).map(|again| codec::encode(&again)), Some(bytes));
        }
    }

    #[test]
    fn a_damaged_trace_is_replayed_or_refused(bytes in damaged_bytes(record(setups()[1]))) {
        let _ = replay(&bytes);
    }
}
