//! The published rules computed by hand, and properties that hold for any evidence.

use numapilot_topology::{Machine, NodeSet};
use proptest::prelude::*;

use super::pages::SeenPage;
use super::*;
use crate::evidence::{Access, Page};
use crate::traffic::Traffic;

fn nodes(count: u32) -> Nodes {
    Nodes::of(&Machine::uniform(count, 1))
}

fn access(page: u64, from: u32, home: u32, write: bool) -> Access {
    let (from, home) = (NodeId(from), NodeId(home));
    Access { page: Page(page), from, home, write, huge: false, latency_ns: None }
}

fn evidence(accesses: Vec<Access>, nodes: u32) -> Evidence {
    Evidence {
        duration_ns: 1_000_000_000,
        accesses,
        memory_used: 0.9,
        usable: (0..nodes).map(NodeId).collect(),
        ..Evidence::default()
    }
}

fn all_on() -> Gates {
    Gates { replicate: true, interleave: true, collocate: true }
}

fn seen(home: u32, users: &[u32], samples: u32) -> SeenPage {
    let users: NodeSet = users.iter().copied().map(NodeId).collect();
    SeenPage { home: NodeId(home), users, samples, written: true }
}

#[test]
fn one_user_takes_the_page_after_two_samples() {
    let loads = [(NodeId(0), 3.0), (NodeId(1), 1.0)];
    let mut random = StdRng::seed_from_u64(0);
    let mut to = |gates, page: SeenPage| {
        Rules { gates, spread: Spread::Complement, loads: &loads }
            .destination(&page, &mut random)
            .map(|(to, _)| to.0)
    };
    let collocate = Gates { collocate: true, ..Gates::default() };
    assert_eq!(to(collocate, seen(0, &[1], 1)), None);
    assert_eq!(to(collocate, seen(0, &[1], 2)), Some(1));
    assert_eq!(to(all_on(), seen(0, &[1], 1)), Some(1), "one is enough while interleaving");
    assert_eq!(to(all_on(), seen(1, &[1], 9)), None, "it is there");
    assert_eq!(to(collocate, seen(0, &[0, 1], 9)), None, "two users");
    assert_eq!(to(Gates::default(), seen(0, &[1], 9)), None);
}

#[test]
fn the_source_spreads_by_the_linear_complement() {
    // Shares 0.6, 0.3, 0.1: complements 0.4, 0.7, 0.9 of 2 in all.
    let loads = [(NodeId(0), 60.0), (NodeId(1), 30.0), (NodeId(2), 10.0)];
    let rules = Rules { gates: all_on(), spread: Spread::Complement, loads: &loads };
    let to = |home, leave, choose| rules.complement(NodeId(home), leave, choose).map(|n| n.0);
    assert_eq!(to(0, 0.61, 0.5), None, "stays with probability 0.4");
    assert_eq!(to(2, 0.11, 0.5), None, "stays with probability 0.9");
    assert_eq!(to(0, 0.59, 0.19), Some(0), "0 has 0.2 of the probability");
    assert_eq!(to(0, 0.59, 0.21), Some(1));
    assert_eq!(to(0, 0.59, 0.54), Some(1), "1 has 0.35");
    assert_eq!(to(0, 0.59, 0.56), Some(2));
    assert_eq!(to(2, 0.09, 0.999), Some(2));
}

#[test]
fn the_text_spreads_by_the_inverse() {
    // 1/60 : 1/30 : 1/10 = 1 : 2 : 6 of 9.
    let loads = [(NodeId(0), 60.0), (NodeId(1), 30.0), (NodeId(2), 10.0)];
    let rules = Rules { gates: all_on(), spread: Spread::Inverse, loads: &loads };
    let to = |choose| rules.inverse(choose).map(|n| n.0);
    assert_eq!(to(0.11), Some(0));
    assert_eq!(to(0.12), Some(1));
    assert_eq!(to(0.33), Some(1));
    assert_eq!(to(0.34), Some(2));
    let loads = [(NodeId(0), 60.0), (NodeId(1), 0.0), (NodeId(2), 0.0)];
    let rules = Rules { gates: all_on(), spread: Spread::Inverse, loads: &loads };
    assert_eq!(rules.inverse(0.49).map(|n| n.0), Some(1));
    assert_eq!(rules.inverse(0.51).map(|n| n.0), Some(2));
}

/// A page with several users and no store is replicated; the first time only with 500 such pages.
#[test]
fn replication_begins_with_many_pages() {
    let pages = |count: u64| -> Vec<Access> {
        (0..count).flat_map(|page| [access(page, 0, 0, false), access(page, 1, 0, false)]).collect()
    };
    let with = |paper: &mut Paper, count| {
        let mut evidence = evidence(pages(count), 2);
        evidence.memory_used = 0.2;
        paper.decide(&nodes(2), &evidence).replicable
    };
    let mut paper = Paper::new(Spread::Complement, 1);
    assert_eq!(with(&mut paper, 499), 0);
    assert_eq!(with(&mut paper, 500), 500);
    assert_eq!(with(&mut paper, 3), 3, "it has begun");
}

/// All pages are on node 0 and used from everywhere: all leave, evenly.
#[test]
fn a_full_controller_is_relieved() {
    let accesses =
        (0..1000u64).flat_map(|page| (0..4).map(move |from| access(page, from, 0, true))).collect();
    let decision = Paper::new(Spread::Complement, 7).decide(&nodes(4), &evidence(accesses, 4));
    assert!(decision.interleaves && decision.collocates, "{decision:?}");
    // Node 0 has all the load: every page leaves, and no weight leads back.
    assert_eq!(decision.orders.len(), 1000);
    for to in 1..4 {
        let there = decision.orders.iter().filter(|order| order.to == NodeId(to)).count();
        assert!((280..390).contains(&there), "{there} pages to node {to}");
    }
}

#[test]
fn counters_open_the_gates_that_samples_would_not() {
    // Samples show load on node 0 only; counters show that both controllers have the same load.
    let accesses: Vec<Access> =
        (0..10).flat_map(|p| [access(p, 0, 0, true), access(p, 1, 0, true)]).collect();
    let mut evidence = evidence(accesses, 2);
    evidence.counted = Traffic::counted(vec![vec![5e7, 0.0], vec![0.0, 5e7]]);
    let decision = Paper::new(Spread::Complement, 1).decide(&nodes(2), &evidence);
    assert_eq!(decision.metrics.maptu, Some(100.0));
    assert!(decision.orders.is_empty(), "{decision:?}");
    evidence.counted = Traffic::counted(vec![vec![4.9e7, 0.0], vec![0.0, 0.0]]);
    let decision = Paper::new(Spread::Complement, 1).decide(&nodes(2), &evidence);
    assert_eq!(decision.metrics.maptu, Some(49.0));
    assert!(!decision.interleaves && decision.orders.is_empty(), "{decision:?}");
}

#[test]
fn later_pages_than_the_table_holds_are_not_looked_at() {
    let accesses: Vec<Access> = (0..4).map(|page| access(page, 1, 0, true)).collect();
    assert_eq!(Seen::of(&accesses, 3).len(), 3);
}

fn any_accesses(nodes: u32) -> impl Strategy<Value = Vec<Access>> {
    let one = (0u64..40, 0..nodes, any::<bool>())
        .prop_map(move |(page, from, write)| access(page, from, (page as u32 * 7) % nodes, write));
    proptest::collection::vec(one, 0..400)
}

proptest! {
    #[test]
    fn orders_go_to_other_usable_nodes(accesses in any_accesses(4), forbidden in 0u32..4, seed: u64, text: bool) {
        let spread = if text { Spread::Inverse } else { Spread::Complement };
        let mut evidence = evidence(accesses, 4);
        evidence.usable.remove(NodeId(forbidden));
        let once = Paper::new(spread, seed).decide(&nodes(4), &evidence);
        for order in &once.orders {
            let home = evidence.accesses.iter().rfind(|a| a.page == order.start).unwrap().home;
            prop_assert!(order.to != home && order.to != NodeId(forbidden));
        }
        prop_assert!(once.orders.is_sorted_by_key(|order| order.start));
        prop_assert_eq!(once, Paper::new(spread, seed).decide(&nodes(4), &evidence));
    }

    #[test]
    fn permuting_nodes_permutes_orders(accesses in any_accesses(3), shift in 1u32..3, seed: u64) {
        let rename = |node: NodeId| NodeId((node.0 + shift) % 3);
        let renamed = accesses.iter().map(|a| Access { from: rename(a.from), home: rename(a.home), ..*a });
        let (before, after) = (evidence(accesses.clone(), 3), evidence(renamed.collect(), 3));
        let loads = before.sampled_traffic(&nodes(3)).loads();
        // Nodes with the same load differ only in their numbers.
        prop_assume!(loads[0] != loads[1] && loads[1] != loads[2] && loads[0] != loads[2]);
        let orders = Paper::new(Spread::Complement, seed).decide(&nodes(3), &before).orders;
        let renamed: Vec<Order> = orders.iter().map(|o| Order { to: rename(o.to), ..*o }).collect();
        prop_assert_eq!(renamed, Paper::new(Spread::Complement, seed).decide(&nodes(3), &after).orders);
    }

    #[test]
    fn local_accesses_in_balance_give_no_order(pages in 1u64..50, seed: u64) {
        let accesses = (0..pages).flat_map(|p| (0..4).map(move |n| access(p * 4 + u64::from(n), n, n, true)));
        let decision = Paper::new(Spread::Complement, seed).decide(&nodes(4), &evidence(accesses.collect(), 4));
        prop_assert_eq!(decision.orders, vec![]);
    }
}
