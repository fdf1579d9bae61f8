//! Faults of a target and its memory: orders are carried out as far as possible, and no page goes
//! where it may not be.

use std::cell::Cell;

use numapilot_balance::simulator::Simulated;
use numapilot_balance::{
    Decision, FirstTouch, MemoryError, Obstacle, Order, Page, Region, Why, carry_out,
};
use numapilot_topology::{NodeId, NodeSet};

const FAR: NodeId = NodeId(1);

fn pages(count: u64) -> Simulated {
    let homes = (0..count).map(|page| (Page(page), NodeId(0))).collect();
    let mut memory = Simulated::default();
    memory.homes = homes;
    memory.page_move_ns = 1000;
    memory
}

fn order(start: u64, pages: u32, to: u32) -> Order {
    Order { start: Page(start), pages, to: NodeId(to), why: Why::Collocate }
}

fn moves(orders: &[Order]) -> Decision {
    Decision { orders: orders.to_vec(), ..Decision::default() }
}

fn usable() -> NodeSet {
    (0..3).map(NodeId).collect()
}

fn all(memory: &mut Simulated, orders: &[Order]) -> (usize, Vec<(Obstacle, u64)>, bool) {
    let (done, error) = carry_out(memory, &moves(orders), &usable(), || false);
    (done.moved.len(), done.refused.into_iter().collect(), error.is_some())
}

#[test]
fn what_is_there_is_not_moved_again() {
    let mut memory = pages(100);
    memory.homes.insert(Page(7), FAR);
    let (done, error) = carry_out(&mut memory, &moves(&[order(0, 10, 1)]), &usable(), || false);
    assert!(error.is_none());
    assert_eq!((done.moved.len(), done.took_ns, memory.moves()), (9, 9000, 9));
    assert!(done.moved.iter().all(|moved| moved.from == NodeId(0) && moved.to == FAR));
}

#[test]
fn the_target_ends_in_the_midst() {
    for calls in 0..8 {
        let mut memory = pages(2000);
        memory.ends_after = Some(calls);
        let (done, error) =
            carry_out(&mut memory, &moves(&[order(0, 2000, 1)]), &usable(), || false);
        assert!(matches!(error, Some(MemoryError::Gone)), "after {calls}: {error:?}");
        assert!(done.moved.len() as u64 <= memory.moves());
    }
}

#[test]
fn pages_are_unmapped_in_the_midst() {
    let mut memory = pages(10);
    memory.unmap(Page(3));
    assert_eq!(all(&mut memory, &[order(0, 10, 1)]), (9, vec![], false));
}

#[test]
fn a_full_node_takes_no_more_and_others_do() {
    let mut memory = pages(3000);
    memory.capacity.insert(FAR, 700);
    let refused = vec![(Obstacle::Full, 1300)];
    assert_eq!(
        all(&mut memory, &[order(0, 2000, 1), order(2000, 1000, 2)]),
        (1700, refused, false)
    );
    assert_eq!((memory.pages_on(FAR), memory.pages_on(NodeId(2))), (700, 1000));
}

#[test]
fn an_empty_pool_stops_its_own_pages_only() {
    // The first region belongs to hugetlbfs. The node that cannot take it has room for the others.
    let mut memory = pages(2048);
    memory.pooled.insert(Region(0));
    let (moved, refused, failed) = all(&mut memory, &[order(0, 2048, 1)]);
    assert_eq!((moved, refused, failed), (1536, vec![(Obstacle::Pool, 512)], false));
    assert_eq!(memory.pages_on(NodeId(1)), 1536);
}

#[test]
fn pinned_and_shared_pages_stay() {
    let mut memory = pages(10);
    memory.pinned.insert(Page(2));
    memory.shared.insert(Page(4));
    assert_eq!(all(&mut memory, &[order(0, 10, 1)]), (8, vec![(Obstacle::Busy, 2)], false));
}

#[test]
fn a_cpuset_that_shrinks_forbids_one_node_and_not_the_others() {
    let mut memory = pages(2000);
    memory.forbidden.insert(FAR);
    let refused = vec![(Obstacle::Forbidden, 1000)];
    assert_eq!(
        all(&mut memory, &[order(0, 1000, 1), order(1000, 1000, 2)]),
        (1000, refused, false)
    );
    assert_eq!((memory.pages_on(FAR), memory.pages_on(NodeId(2))), (0, 1000));
}

#[test]
fn a_huge_page_comes_along_whole() {
    let mut memory = pages(1024);
    memory.huge.insert(Region(1));
    assert_eq!(all(&mut memory, &[order(512, 512, 1)]).0, 512);
    assert_eq!((memory.pages_on(FAR), memory.moves()), (512, 512));
}

#[test]
fn a_huge_page_that_is_split_moves_page_by_page_and_one_that_cannot_be_stays() {
    let mut memory = pages(1536);
    memory.huge.extend([Region(1), Region(2)]);
    memory.unsplittable.insert(Region(2));
    let orders = [order(0, 1, 1), order(512, 3, 1), order(1024, 2, 1)];
    let decision = Decision { splits: vec![Region(1), Region(2)], ..moves(&orders) };
    let (done, error) = carry_out(&mut memory, &decision, &usable(), || false);
    assert!(error.is_none());
    assert_eq!((done.split, done.moved.len(), memory.pages_on(FAR)), (1, 4, 4));
    assert_eq!(done.refused.into_iter().collect::<Vec<_>>(), [(Obstacle::Huge, 2)]);
}

#[test]
fn memory_is_spread_before_it_is_touched_and_no_more() {
    let mut memory = pages(10);
    for spread in [true, false] {
        let first_touch = vec![FirstTouch { region: Region(5), spread }];
        let decision = Decision { first_touch, ..Decision::default() };
        let (done, error) = carry_out(&mut memory, &decision, &usable(), || false);
        assert!(error.is_none());
        assert_eq!(memory.spread.get(&Region(5)), spread.then(usable).as_ref());
        assert_eq!(done.spread_bytes, if spread { 2 << 20 } else { 0 });
    }
}

#[test]
fn being_asked_to_stop_ends_after_the_call_at_hand() {
    let mut memory = pages(5000);
    let asked = Cell::new(0);
    let (done, error) = carry_out(&mut memory, &moves(&[order(0, 5000, 1)]), &usable(), || {
        asked.set(asked.get() + 1);
        asked.get() > 2
    });
    assert!(error.is_none());
    assert_eq!((done.moved.len(), memory.pages_on(FAR)), (1024, 1024));
}
