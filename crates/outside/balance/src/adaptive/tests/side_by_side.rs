//! Pages of several nodes side by side in a region, in huge pages and in base pages.

use super::*;

#[test]
fn a_huge_page_moves_as_one() {
    let mut world = World::new(2).pages(512, 512, 0);
    for _ in 0..2 {
        world.interval_with(by(600..604, 1, 10), |_, _| None, true);
    }
    let orders: Vec<Order> = world.given.iter().map(|(_, order)| *order).collect();
    assert_eq!(
        orders,
        [Order { start: Page(512), pages: 512, to: NodeId(1), why: Why::Collocate }]
    );
}

/// Each page of a huge page belongs to the next node in turn.
fn side_by_side(nodes: u32, times: usize) -> Vec<(u64, u32)> {
    (512..1024).flat_map(|page| by(page..page + 1, page as u32 % nodes, times)).collect()
}

#[test]
fn a_huge_page_with_pages_of_several_nodes_is_split() {
    for (can_split, from_all) in [(true, false), (false, false), (true, true)] {
        let mut world = World::new(4).pages(512, 512, 0);
        world.can_split = can_split;
        let mut splits = Vec::new();
        for _ in 0..3 {
            let shared = (0..4).flat_map(|node| by(512..1024, node, 1)).collect();
            let accesses = if from_all { shared } else { side_by_side(4, 2) };
            let congested = |from, home| Some(if from == home { 300 } else { 400 });
            splits.extend(world.interval_with(accesses, congested, true).splits);
        }
        if can_split && !from_all {
            assert_eq!((splits, world.counts()), (vec![Region(1)], vec![128; 4]));
        } else {
            assert_eq!(splits, [], "with {can_split} {from_all}");
            assert!(world.given.iter().all(|(_, order)| order.is_whole()));
        }
    }
}

/// A node whose accesses are served locally makes more of them.
#[test]
fn a_huge_page_that_is_mostly_one_nodes_is_split_for_the_others() {
    for (others, split) in [(256, true), (16, false)] {
        let mut world = World::new(2).pages(512, 512, 0);
        let mut splits = Vec::new();
        for _ in 0..3 {
            let first_of_others = 1024 - others;
            let accesses =
                [by(512..first_of_others, 0, 3), by(first_of_others..1024, 1, 2)].concat();
            let congested = |from, home| Some(if from == home { 300 } else { 400 });
            splits.extend(world.interval_with(accesses, congested, true).splits);
        }
        let expected = if split { (vec![Region(1)], vec![256; 2]) } else { (vec![], vec![512, 0]) };
        assert_eq!((splits, world.counts()), expected);
    }
}

#[test]
fn a_huge_page_goes_whole_to_who_has_nearly_all_of_it() {
    let mut world = World::new(2).pages(512, 512, 0);
    let mut splits = Vec::new();
    for _ in 0..3 {
        let accesses = [by(512..1000, 1, 2), by(1000..1024, 0, 2)].concat();
        let far = |from, home| Some(if from == home { 100 } else { 300 });
        splits.extend(world.interval_with(accesses, far, true).splits);
    }
    assert_eq!((splits, world.counts()), (vec![], vec![0, 512]));
}

#[test]
fn a_page_side_by_side_with_others_does_not_go_with_the_most_of_them() {
    // Two accesses in three come from node 0. No page has enough evidence by itself. The second
    // time, some pages are not seen, which alone would be worth a move of the whole region.
    for seen in [512..1024, 512..1020] {
        let mut world = World::new(2).pages(512, 512, 0);
        for _ in 0..2 {
            world.interval(seen.clone().map(|page| (page, u32::from(page % 3 == 0))));
        }
        assert!(
            seen.clone().all(|page| world.home(page) == u32::from(page % 3 == 0)),
            "{seen:?}: {:?}",
            world.counts()
        );
    }
}

#[test]
fn a_huge_page_is_not_split_for_little() {
    let mut world = World::new(4).pages(512, 512, 0);
    for _ in 0..3 {
        // Accesses are almost as fast as local memory: page tables would cost more.
        let decision = world.interval_with(side_by_side(4, 2), |_, _| Some(120), true);
        assert_eq!((decision.splits, decision.orders), (vec![], vec![]));
    }
}

#[test]
fn pages_side_by_side_go_to_their_users_by_one_access() {
    let mut world = World::new(4).pages(512, 512, 0);
    world.interval(side_by_side(4, 1));
    world.interval(side_by_side(4, 1));
    assert_eq!(world.counts(), [128; 4]);
}
