//! Chooses the node for a page that several nodes share. Neighbouring pages go to different nodes,
//! and each node gets pages in proportion to its weight, its share of the load.
//!
//! Threads that read the same array in order use neighbouring pages at one time. With random nodes,
//! some of these pages would be on one node, and its controller would serve all of these threads
//! for a while. Loads that are even over an interval do not show that.
//!
//! Source: the smooth weighted round robin of load balancers, in which the wait of a node for its
//! turn is bounded by its weight.

use std::cell::OnceCell;

use crate::evidence::Page;

/// Mean number of turns of each node until the sequence repeats.
const ROUNDS: usize = 16;

/// The sequence of nodes, for each node that pages leave.
#[derive(Debug)]
pub struct WeightedRoundRobin<'a> {
    /// Each node's share of the load.
    target: &'a [f64],
    /// The sequence for each node that pages leave.
    from: Vec<OnceCell<Vec<u16>>>,
}

impl<'a> WeightedRoundRobin<'a> {
    pub fn new(target: &'a [f64]) -> Self {
        Self { target, from: vec![OnceCell::new(); target.len()] }
    }

    /// The node for a page that leaves `home`, or for a region that begins with the page.
    pub fn node(&self, start: Page, is_region: bool, home: usize) -> usize {
        let sequence = self.from[home].get_or_init(|| sequence(self.target, home));
        let number = if is_region { start.region().0 } else { start.0 };
        // The length is a power of two.
        sequence[number as usize & (sequence.len() - 1)].into()
    }
}

/// Smooth weighted round robin; ties go to the node after `first`.
fn sequence(target: &[f64], first: usize) -> Vec<u16> {
    let nodes = target.len();
    let mut had = vec![0.0; nodes];
    let turn = |turn: usize| {
        let wants = |at: usize| target[at] * (turn + 1) as f64 - had[at];
        let after = |distance: usize| (first + distance) % nodes;
        let next = (1..nodes)
            .map(after)
            .fold(first, |most, at| if wants(at) > wants(most) { at } else { most });
        had[next] += 1.0;
        u16::try_from(next).unwrap_or(u16::MAX)
    };
    (0..(ROUNDS * nodes).next_power_of_two()).map(turn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Region;

    #[test]
    fn equals_take_turns() {
        let target = [0.25; 4];
        let round_robin = WeightedRoundRobin::new(&target);
        let of =
            |home| (0..6).map(|page| round_robin.node(Page(page), false, home)).collect::<Vec<_>>();
        assert_eq!(of(0), [0, 1, 2, 3, 0, 1]);
        assert_eq!(of(2), [2, 3, 0, 1, 2, 3]);
        let regions = |at: u64| round_robin.node(Region(at).start(), true, 0);
        assert_eq!([0, 1, 2, 3, 4].map(regions), [0, 1, 2, 3, 0]);
    }

    #[test]
    fn turns_are_as_often_as_the_part_of_the_load() {
        let sequence = sequence(&[0.5, 0.25, 0.25, 0.0], 1);
        let of = |node: u16| sequence.iter().filter(|turn| **turn == node).count();
        assert_eq!([0, 1, 2, 3].map(of), [32, 16, 16, 0]);
        // No node waits for long.
        assert!(sequence.windows(3).all(|some| some.contains(&0)), "{sequence:?}");
        assert!(sequence.windows(5).all(|some| [1, 2].iter().all(|node| some.contains(node))));
    }
}
