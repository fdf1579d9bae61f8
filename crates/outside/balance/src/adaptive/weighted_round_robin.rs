//! Which node is to take what several share: neighbours go to different nodes, all in turn, as often as
//! each node's part of the load says.
//!
//! Threads that read the same array in order are at neighbouring pages. Where nodes are drawn by lot
//! some of these lie on one node, whose controller has all these threads for a while, when another
//! has none; loads that are even over an interval do not show it.
//!
//! Source: the smooth weighted round robin of load balancers, by which nobody waits longer for his
//! turn than by his weight.

use std::cell::OnceCell;

use crate::evidence::Page;

/// Turns of each node, in the mean, until they begin anew.
const ROUNDS: usize = 16;

/// Turns, beginning with a node that pages leave.
#[derive(Debug)]
pub struct Turns<'a> {
    /// Each node's part of the load.
    target: &'a [f64],
    /// By the node that pages leave.
    from: Vec<OnceCell<Vec<u16>>>,
}

impl<'a> Turns<'a> {
    pub fn new(target: &'a [f64]) -> Self {
        Self { target, from: vec![OnceCell::new(); target.len()] }
    }

    /// The node whose turn a page on this one, or a region that begins with it, is.
    pub fn node(&self, start: Page, is_region: bool, home: usize) -> usize {
        let turns = self.from[home].get_or_init(|| turns(self.target, home));
        let number = if is_region { start.region().0 } else { start.0 };
        // There are a power of two.
        turns[number as usize & (turns.len() - 1)].into()
    }
}

/// One after the other he who has had least of his part, the next after `first` among equals.
fn turns(target: &[f64], first: usize) -> Vec<u16> {
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
        let turns = Turns::new(&target);
        let of = |home| (0..6).map(|page| turns.node(Page(page), false, home)).collect::<Vec<_>>();
        assert_eq!(of(0), [0, 1, 2, 3, 0, 1]);
        assert_eq!(of(2), [2, 3, 0, 1, 2, 3]);
        let regions = |at: u64| turns.node(Region(at).start(), true, 0);
        assert_eq!([0, 1, 2, 3, 4].map(regions), [0, 1, 2, 3, 0]);
    }

    #[test]
    fn turns_are_as_often_as_the_part_of_the_load() {
        let turns = turns(&[0.5, 0.25, 0.25, 0.0], 1);
        let of = |node: u16| turns.iter().filter(|turn| **turn == node).count();
        assert_eq!([0, 1, 2, 3].map(of), [32, 16, 16, 0]);
        // Nobody waits for long.
        assert!(turns.windows(3).all(|some| some.contains(&0)), "{turns:?}");
        assert!(turns.windows(5).all(|some| [1, 2].iter().all(|node| some.contains(node))));
    }
}
