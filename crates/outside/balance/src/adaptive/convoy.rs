//! Detects convoys: at one time, all accesses of a node go to the memory of one node, and at
//! another time to that of another.
//!
//! Threads that move on from one part of memory to the next together, or that change nodes, wait
//! for one link and one controller after the other, although the controllers are used evenly over
//! the whole interval. Spreading the pages makes them use all controllers at once. A convoy shows
//! in the home of a node's next access to another page: it equals the home of the previous access
//! more often than in a random order.

use crate::evidence::{Access, Page};

/// The degree above which spreading begins, and the one below which it ends.
const MUCH: f64 = 0.3;
const LITTLE: f64 = 0.1;

/// Steps needed to detect a convoy. Only steps count that chance would have led to another node.
const LEAST_STEPS: f64 = 100.0;

/// Observes accesses in the order in which they came, for each node. Nodes are positions.
#[derive(Clone, Debug, Default)]
pub struct Convoy {
    /// The last page that each node accessed, and the page's home.
    last: Vec<Option<(Page, usize)>>,
    /// For each accessing node, steps that stayed on the same home.
    stayed: Vec<u32>,
    /// For each accessing node and home, the steps.
    steps: Vec<u32>,
}

impl Convoy {
    /// Starts over, with this many nodes.
    pub fn begin(&mut self, nodes: usize) {
        self.last.clear();
        self.last.resize(nodes, None);
        self.stayed.clear();
        self.stayed.resize(nodes, 0);
        self.steps.clear();
        self.steps.resize(nodes * nodes, 0);
    }

    /// Observes the next access.
    pub fn observe_access(&mut self, from: usize, home: usize, access: &Access) {
        // Memory that moves as one unit cannot be on several nodes.
        let unit = if access.huge { access.page.region().start() } else { access.page };
        let last = self.last[from].replace((unit, home));
        let Some((_, before)) = last.filter(|(page, _)| *page != unit) else { return };
        self.stayed[from] += u32::from(before == home);
        self.steps[from * self.stayed.len() + home] += 1;
    }

    /// The share, from 0 to 1, of steps that stayed on a node although a random order of accesses
    /// would have left it.
    fn degree(&self) -> f64 {
        let (mut beyond, mut others) = (0.0, 0.0);
        for (to, stayed) in self.steps.chunks(self.stayed.len().max(1)).zip(&self.stayed) {
            let all: f64 = to.iter().copied().map(f64::from).sum();
            let squares: f64 = to.iter().map(|steps| f64::from(*steps).powi(2)).sum();
            if all > 0.0 {
                let by_chance = squares / all;
                beyond += f64::from(*stayed) - by_chance;
                others += all - by_chance;
            }
        }
        if others < LEAST_STEPS { 0.0 } else { (beyond / others).max(0.0) }
    }

    /// The degree, if it is high enough to begin spreading, or to continue when spreading has
    /// begun.
    pub fn degree_worth_spreading(&self, spreading: bool) -> Option<f64> {
        let most = if spreading { LITTLE } else { MUCH };
        Some(self.degree()).filter(|degree| *degree > most)
    }
}

#[cfg(test)]
mod tests {
    use numapilot_topology::NodeId;

    use super::*;

    /// The degree of these accesses, `(page, from, home)`, between two nodes.
    fn degree(accesses: impl IntoIterator<Item = (u64, usize, usize)>, huge: bool) -> f64 {
        let mut convoy = Convoy::default();
        convoy.begin(2);
        for (page, from, home) in accesses {
            let access = Access {
                page: Page(page),
                from: NodeId(from as u32),
                home: NodeId(home as u32),
                write: false,
                huge,
                latency_ns: None,
            };
            convoy.observe_access(from, home, &access);
        }
        convoy.degree()
    }

    #[test]
    fn one_node_after_the_other_is_a_convoy() {
        // Both nodes walk four times over 100 pages of each node.
        let walk = || (0..1600u64).map(|n| (n, n as usize % 2, n as usize / 200 % 2));
        assert!(degree(walk(), false) > 0.95);
        // A node that uses the memory of one node only does not wait for another's.
        assert!(degree((0..1600).map(|n| (n, n as usize % 2, n as usize % 2)), false) < 0.01);
        assert!(degree(walk().take(100), false) < 0.01, "too few to tell");
        assert!(degree([], false) < 0.01);
    }

    #[test]
    fn what_is_spread_is_no_convoy() {
        let spread = |n: u64| (n, 0, (n / 7 + n / 3) as usize % 2);
        assert!(degree((0..1600).map(spread), false) < 0.3);
        assert!(degree((0..1600).map(|n| (n, 0, n as usize % 2)), false) < 0.01);
        // Consecutive accesses often go to the same page, or the same huge page.
        let same = |n: u64| (n / 20, 0, (n / 20) as usize % 2);
        assert!(degree((0..4000).map(same), false) < 0.01);
        let same_region = |n: u64| (n * 16, 0, (n / 32) as usize % 2);
        assert!(degree((0..8000).map(same_region), true) < 0.01);
    }
}
