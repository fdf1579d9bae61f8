//! Convoys: at one time, all accesses of a node go to the memory of one node, and at another time
//! to that of another.
//!
//! Threads that go on from one part of memory to the next together, or that change nodes, wait for
//! one path and one controller after the other, while those of the whole interval are used
//! evenly. What is spread they use all at once. A convoy shows in the home of a node's next access
//! to another page: it is the home of the access before more often than in a random order.

use crate::evidence::{Access, Page};

/// Degrees of a convoy from which on pages are spread, and below which spreading ends.
const MUCH: f64 = 0.3;
const LITTLE: f64 = 0.1;

/// Steps from one access to the next that chance would have led to another node, by which convoy is
/// known.
const LEAST_STEPS: f64 = 100.0;

/// Accesses as they came, each node's one after the other; nodes are positions.
#[derive(Clone, Debug, Default)]
pub struct Convoy {
    /// By node that accesses: the last page, and where it was.
    last: Vec<Option<(Page, usize)>>,
    /// By node that accesses: steps that stayed on the same node.
    stayed: Vec<u32>,
    /// By node that accesses, and home: steps.
    steps: Vec<u32>,
}

impl Convoy {
    /// Begins anew, with so many nodes.
    pub fn begin(&mut self, nodes: usize) {
        self.last.clear();
        self.last.resize(nodes, None);
        self.stayed.clear();
        self.stayed.resize(nodes, 0);
        self.steps.clear();
        self.steps.resize(nodes * nodes, 0);
    }

    /// The next access.
    pub fn observe_access(&mut self, from: usize, home: usize, access: &Access) {
        // What is moved as one cannot be on several nodes.
        let unit = if access.huge { access.page.region().start() } else { access.page };
        let last = self.last[from].replace((unit, home));
        let Some((_, before)) = last.filter(|(page, _)| *page != unit) else { return };
        self.stayed[from] += u32::from(before == home);
        self.steps[from * self.stayed.len() + home] += 1;
    }

    /// Of the steps that would have led to another node if accesses had come in any order, the part
    /// that did not: 0 to 1.
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

    /// The degree, when it is much; when something has begun to be spread, when it still is some.
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
        // Four times 100 pages of each node, by both.
        let walk = || (0..1600u64).map(|n| (n, n as usize % 2, n as usize / 200 % 2));
        assert!(degree(walk(), false) > 0.95);
        // Whoever uses one node's memory only does not have to wait for another's.
        assert!(degree((0..1600).map(|n| (n, n as usize % 2, n as usize % 2)), false) < 0.01);
        assert!(degree(walk().take(100), false) < 0.01, "too few to tell");
        assert!(degree([], false) < 0.01);
    }

    #[test]
    fn what_is_spread_is_no_convoy() {
        let spread = |n: u64| (n, 0, (n / 7 + n / 3) as usize % 2);
        assert!(degree((0..1600).map(spread), false) < 0.3);
        assert!(degree((0..1600).map(|n| (n, 0, n as usize % 2)), false) < 0.01);
        // Often the same page, or the same huge page.
        let same = |n: u64| (n / 20, 0, (n / 20) as usize % 2);
        assert!(degree((0..4000).map(same), false) < 0.01);
        let same_region = |n: u64| (n * 16, 0, (n / 32) as usize % 2);
        assert!(degree((0..8000).map(same_region), true) < 0.01);
    }
}
