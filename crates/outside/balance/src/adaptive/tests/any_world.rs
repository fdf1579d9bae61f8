//! Properties that hold in any world.

use proptest::prelude::*;

use super::*;

/// Accesses of some intervals: pages of three regions, by any of the nodes.
fn any_intervals(nodes: u32) -> impl Strategy<Value = Vec<Vec<(u64, u32)>>> {
    let page = (0u64..3, 0u64..30).prop_map(|(region, page)| region * 512 + page);
    let one = proptest::collection::vec((page, 0..nodes), 0..300);
    proptest::collection::vec(one, 1..12)
}

fn world(nodes: u32) -> World {
    (0..3).fold(World::new(nodes), |world, region| {
        world.pages(region * 512, 512, region as u32 % nodes)
    })
}

proptest! {
    #[test]
    fn orders_are_sound(intervals in any_intervals(4), forbidden in 0u32..5, budget in 1u64..400, faults: bool) {
        let mut world = world(4);
        world.usable.remove(NodeId(forbidden));
        let bytes_per_second = budget * Page::BYTES * 8;
        world.state = Adaptive::new(4, Settings { bytes_per_second, ..Settings::default() });
        world.per_sample = (!faults).then_some(1000.0);
        for accesses in intervals {
            let before = world.homes.clone();
            let decision = world.interval(accesses);
            prop_assert!(decision.orders.is_sorted_by(|a, b| a.start.0 + u64::from(a.pages) <= b.start.0));
            for order in &decision.orders {
                prop_assert!(world.usable.contains(order.to));
                prop_assert!(order.each().any(|page| before.get(&page).is_some_and(|home| *home != order.to)));
            }
            let bytes: u64 = decision.orders.iter().map(|order| order.bytes()).sum();
            prop_assert!(bytes <= bytes_per_second);
        }
        // A page moves once in a cooldown, except for rollbacks.
        let mut last: BTreeMap<Page, u64> = BTreeMap::new();
        for (at, order) in world.given.iter().filter(|(_, order)| order.why != Why::Undo) {
            for page in order.each() {
                if let Some(before) = last.insert(page, *at) {
                    prop_assert!(at - before >= COOLDOWN_NS, "{page:?} at {before} and {at}");
                }
            }
        }
    }

    #[test]
    fn the_same_evidence_gives_the_same_orders(intervals in any_intervals(3)) {
        let (mut one, mut other) = (world(3), world(3));
        for accesses in intervals {
            prop_assert_eq!(one.interval(accesses.clone()), other.interval(accesses));
        }
    }

    /// The order of samples within an interval does not matter.
    #[test]
    fn permuting_nodes_permutes_orders(intervals in any_intervals(2)) {
        let (mut one, mut other) = (world(2), world(2));
        other.homes.values_mut().for_each(|home| home.0 = 1 - home.0);
        for accesses in intervals {
            let swapped: Vec<_> = accesses.iter().map(|(page, from)| (*page, 1 - from)).collect();
            let (orders, mirrored) = (one.interval(accesses).orders, other.interval(swapped).orders);
            let mirror = |order: &Order| Order { to: NodeId(1 - order.to.0), ..*order };
            prop_assert_eq!(orders.iter().map(mirror).collect::<Vec<_>>(), mirrored);
        }
    }

    /// For one page among others, an additional access by a node never takes the page away from it.
    #[test]
    fn more_evidence_never_lowers_the_chance(mine in 0usize..40, others in 0usize..40, more in 1usize..20) {
        let goes = |mine: usize| {
            let mut world = World::new(2).pages(0, 1, 0).pages(1, 200, 1);
            for _ in 0..2 {
                let page = vec![(0, 1); mine].into_iter().chain(vec![(0, 0); others]);
                world.interval(page.chain(by(1..201, 1, 2)).chain(by(1..60, 0, 2)));
            }
            world.home(0) == 1
        };
        prop_assert!(goes(mine + more) || !goes(mine));
    }

    #[test]
    fn nothing_to_gain_gives_no_order(pages in 20u64..100, times in 1usize..10, intervals in 1usize..8) {
        let mut world = World::new(4);
        for node in 0..4u32 {
            world = world.pages(u64::from(node) * 512, pages, node);
        }
        for _ in 0..intervals {
            let local = (0..4u32).flat_map(|n| by(u64::from(n) * 512..u64::from(n) * 512 + pages, n, times));
            let decision = world.interval(local.collect::<Vec<_>>());
            prop_assert_eq!(decision.orders, vec![]);
        }
    }
}
