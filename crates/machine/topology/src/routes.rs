//! Routes over the links between nodes: number of hops, links used, bandwidth.
//!
//! A route is a shortest path by hops. Ties go to the path whose narrowest link is widest, then to
//! the one with the lowest node ids, so that every run finds the same route.

use std::collections::VecDeque;

/// Shortest routes between all pairs of nodes, by position in [`crate::Machine::nodes`].
#[derive(Clone, Debug, PartialEq)]
pub struct Routes {
    /// `previous[from][to]`: the node before `to` on the route, and the bandwidth of the whole
    /// route; `None` when there is no route. For `from == to` it is the node itself.
    steps: Vec<Vec<Option<Step>>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    previous: usize,
    hops: u32,
    gb_per_s: f64,
}

impl Routes {
    /// Routes over `links` (two ends and bandwidth of one direction) among `nodes` nodes.
    /// Links to positions beyond `nodes` are left out.
    #[must_use]
    pub fn new(nodes: usize, links: &[(usize, usize, f64)]) -> Self {
        let mut neighbours = vec![Vec::new(); nodes];
        for &(a, b, gb_per_s) in links {
            if a < nodes && b < nodes && a != b {
                neighbours[a].push((b, gb_per_s));
                neighbours[b].push((a, gb_per_s));
            }
        }
        for list in &mut neighbours {
            list.sort_by_key(|(node, _)| *node);
        }
        Self { steps: (0..nodes).map(|from| from_node(from, &neighbours)).collect() }
    }

    /// Hops from one node to another: 0 to itself, `None` without a route.
    #[must_use]
    pub fn hops(&self, from: usize, to: usize) -> Option<u32> {
        self.step(from, to).map(|s| s.hops)
    }

    /// Bandwidth of the narrowest link of the route; infinite from a node to itself.
    #[must_use]
    pub fn gb_per_s(&self, from: usize, to: usize) -> Option<f64> {
        self.step(from, to).map(|s| s.gb_per_s)
    }

    /// The nodes on the route, including both ends; `None` without a route.
    #[must_use]
    pub fn path(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let mut path = vec![to];
        let mut at = to;
        while at != from {
            at = self.step(from, at)?.previous;
            path.push(at);
        }
        path.reverse();
        Some(path)
    }

    fn step(&self, from: usize, to: usize) -> Option<Step> {
        *self.steps.get(from)?.get(to)?
    }
}

/// Breadth first. A node's bandwidth is final once all nodes one hop nearer are done.
fn from_node(from: usize, neighbours: &[Vec<(usize, f64)>]) -> Vec<Option<Step>> {
    let mut steps: Vec<Option<Step>> = vec![None; neighbours.len()];
    steps[from] = Some(Step { previous: from, hops: 0, gb_per_s: f64::INFINITY });
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        let Some(here) = steps[at] else { continue };
        for &(next, link) in &neighbours[at] {
            let step =
                Step { previous: at, hops: here.hops + 1, gb_per_s: here.gb_per_s.min(link) };
            match &mut steps[next] {
                empty @ None => {
                    *empty = Some(step);
                    queue.push_back(next);
                }
                Some(old) if old.hops == step.hops && step.gb_per_s > old.gb_per_s => *old = step,
                Some(_) => {}
            }
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_ring_goes_both_ways_and_the_wider_way_where_equal() {
        let routes = Routes::new(4, &[(0, 1, 8.0), (1, 2, 8.0), (2, 3, 16.0), (3, 0, 16.0)]);
        assert_eq!(routes.hops(0, 0), Some(0));
        assert_eq!(routes.hops(0, 2), Some(2));
        assert_eq!(routes.path(0, 2), Some(vec![0, 3, 2]));
        assert_eq!(routes.gb_per_s(0, 2), Some(16.0));
    }

    #[test]
    fn an_unlinked_node_is_not_reached() {
        let routes = Routes::new(3, &[(0, 1, 8.0)]);
        assert_eq!(routes.hops(0, 2), None);
        assert_eq!(routes.path(2, 0), None);
    }

    proptest! {
        #[test]
        fn a_path_has_as_many_links_as_hops(
            links in proptest::collection::vec((0usize..9, 0usize..9, 1f64..9.0), 0..20),
        ) {
            let routes = Routes::new(8, &links);
            for from in 0..8 {
                for to in 0..8 {
                    prop_assert_eq!(
                        routes.path(from, to).map(|p| p.len() - 1),
                        routes.hops(from, to).map(|h| h as usize)
                    );
                    prop_assert_eq!(routes.hops(from, to), routes.hops(to, from));
                }
            }
        }
    }
}
