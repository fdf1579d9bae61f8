//! The rule for one page.

use numapilot_topology::{NodeId, NodeSet};
use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::gates::Gates;
use crate::decision::Why;
use crate::evidence::{Access, Page};
use crate::page_map::PageMap;

/// How the node of an interleaved page is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// As in the published source: a page moves with probability load of its node / all load, to
    /// node j with probability (1 - load of j / all load) / (N - 1), its own node included.
    #[default]
    Complement,
    /// As in the text of the papers: to a node with probability inversely proportional to its load.
    Inverse,
}

/// The samples of one page in an interval.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenPage {
    /// Its node in the last sample.
    pub home: NodeId,
    /// Nodes that accessed it.
    pub users: NodeSet,
    /// Samples.
    pub samples: u32,
    /// Whether one of them was a store.
    pub written: bool,
}

impl SeenPage {
    /// Whether a copy for every user would make all accesses local.
    pub fn replicable(&self) -> bool {
        self.users.len() > 1 && !self.written
    }
}

/// Collects sampled pages, in order.
pub struct Seen;

impl Seen {
    /// The first `most` pages of an interval.
    pub fn of(accesses: &[Access], most: usize) -> Vec<(Page, SeenPage)> {
        let mut pages: Vec<(Page, SeenPage)> = Vec::new();
        let mut index: PageMap<Page, usize> = PageMap::default();
        for access in accesses {
            let at = match index.get(&access.page) {
                Some(at) => *at,
                None if pages.len() >= most => continue,
                None => {
                    let (home, users) = (access.home, NodeSet::new());
                    pages.push((access.page, SeenPage { home, users, samples: 0, written: false }));
                    index.insert(access.page, pages.len() - 1);
                    pages.len() - 1
                }
            };
            let page = &mut pages[at].1;
            page.home = access.home;
            page.users.insert(access.from);
            page.samples += 1;
            page.written |= access.write;
        }
        pages.sort_unstable_by_key(|(page, _)| *page);
        pages
    }
}

/// The rules of an interval.
pub struct Rules<'a> {
    pub gates: Gates,
    pub spread: Spread,
    /// Every node with the load of its memory.
    pub loads: &'a [(NodeId, f64)],
}

impl Rules<'_> {
    /// Where a page is to go, and why; `None` if it stays.
    pub fn destination(&self, page: &SeenPage, random: &mut impl RngExt) -> Option<(NodeId, Why)> {
        match (page.users.len(), page.users.first()) {
            (1, Some(user)) => {
                let least = if self.gates.interleave { 1 } else { 2 };
                (self.gates.collocate && page.samples >= least && user != page.home)
                    .then_some((user, Why::Collocate))
            }
            (2.., _) if self.gates.interleave => {
                let to = match self.spread {
                    Spread::Complement => {
                        self.complement(page.home, random.random(), random.random())
                    }
                    Spread::Inverse => self.inverse(random.random()),
                }?;
                (to != page.home).then_some((to, Why::Interleave))
            }
            _ => None,
        }
    }

    /// The rule of the published source, by two draws from [0, 1).
    pub(super) fn complement(&self, home: NodeId, leave: f64, choose: f64) -> Option<NodeId> {
        let total: f64 = self.loads.iter().map(|(_, load)| load).sum();
        let own = self.loads.iter().find(|(id, _)| *id == home)?.1;
        if leave >= own / total {
            return None;
        }
        let weights = self.loads.iter().map(|&(id, load)| (id, 1.0 - load / total));
        pick(weights.collect(), choose)
    }

    /// The rule of the text, by one draw from [0, 1). Nodes without load take precedence: they
    /// share all of the probability.
    pub(super) fn inverse(&self, choose: f64) -> Option<NodeId> {
        let unused = self.loads.iter().any(|(_, load)| *load <= 0.0);
        let weight = |load: f64| match unused {
            true => f64::from(u8::from(load <= 0.0)),
            false => load.recip(),
        };
        pick(self.loads.iter().map(|&(id, load)| (id, weight(load))).collect(), choose)
    }
}

/// Picks one of several, with probability in proportion to its weight. They are taken in ascending
/// order of weight, so that the result depends on the nodes' loads and not on their numbers.
fn pick(mut weights: Vec<(NodeId, f64)>, draw: f64) -> Option<NodeId> {
    weights.retain(|(_, weight)| *weight > 0.0);
    weights.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    let mut left = draw * weights.iter().map(|(_, weight)| weight).sum::<f64>();
    for &(id, weight) in &weights {
        if left < weight {
            return Some(id);
        }
        left -= weight;
    }
    // Rounding may leave a small rest at the end.
    weights.last().map(|(id, _)| *id)
}
