//! Carries orders out.
//!
//! move_pages(2) works in batches of consecutive entries for one node, and takes as long for a page
//! that is already there. So the present nodes are queried first, pages that have arrived are left
//! out, and the others go node by node. A second query shows which pages were moved, because the
//! call's own result leaves out pages of a batch that failed in part.

use std::collections::{BTreeMap, BTreeSet};

use numapilot_topology::{NodeId, NodeSet};

use crate::decision::{Decision, Moved};
use crate::evidence::{Page, Region};
use crate::memory::{Memory, MemoryError, Obstacle};

/// Pages of one call; a signal has to wait for it.
const BATCH: usize = 512;

/// The result of carrying out orders.
#[derive(Debug, Default)]
pub struct Done {
    /// Pages that were moved.
    pub moved: Vec<Moved>,
    /// Bytes that will be spread on first touch.
    pub spread_bytes: u64,
    /// Huge pages that were split.
    pub split: usize,
    /// Pages that were not moved, by reason.
    pub refused: BTreeMap<Obstacle, u64>,
    /// How long it took.
    pub took_ns: u64,
}

impl Done {
    fn refuse(&mut self, obstacle: Obstacle, pages: usize) {
        if pages > 0 {
            *self.refused.entry(obstacle).or_default() += pages as u64;
        }
    }
}

/// Carries a decision out: changes the policy of untouched memory, splits huge pages, and moves the
/// pages of all orders to nodes that are usable. `stop` is polled between calls. If there is an
/// error, the result includes what was done before it.
pub fn carry_out(
    memory: &mut impl Memory,
    decision: &Decision,
    usable: &NodeSet,
    stop: impl Fn() -> bool,
) -> (Done, Option<MemoryError>) {
    let Decision { splits, orders, .. } = decision;
    let began = memory.now_ns();
    let mut done = Done::default();
    for (spread, over) in [(false, &NodeSet::new()), (true, usable)] {
        let regions = decision.first_touch.iter().filter(|change| change.spread == spread);
        let regions: Vec<Region> = regions.map(|change| change.region).collect();
        let bytes = memory.first_touch(&regions, over);
        done.spread_bytes += if spread { bytes } else { 0 };
    }
    // A page that stays huge stays where it is: its parts have different destinations.
    let found = splits.iter().zip(memory.split(splits));
    let huge: BTreeSet<Region> =
        found.filter(|(_, split)| !split).map(|(region, _)| *region).collect();
    done.split = splits.len() - huge.len();
    let mut by_node: BTreeMap<NodeId, Vec<Page>> = BTreeMap::new();
    for order in orders {
        if huge.contains(&order.start.region()) {
            done.refuse(Obstacle::Huge, order.pages as usize);
            continue;
        }
        by_node.entry(order.to).or_default().extend(order.each());
    }
    let mut error = None;
    'all: for (to, pages) in by_node {
        let mut batches = pages.chunks(BATCH);
        while let Some(batch) = batches.next() {
            if stop() {
                break 'all;
            }
            let obstacle = match one(memory, batch, to, &mut done) {
                // An empty pool tells nothing about the node.
                Ok(()) | Err(MemoryError::EmptyPool) => continue,
                // Only this node fails; the others go on.
                Err(MemoryError::Full) => Obstacle::Full,
                Err(MemoryError::Forbidden) => Obstacle::Forbidden,
                Err(other) => {
                    error = Some(other);
                    break 'all;
                }
            };
            done.refuse(obstacle, batches.map(<[Page]>::len).sum());
            break;
        }
    }
    done.took_ns = memory.now_ns().saturating_sub(began);
    (done, error)
}

/// Moves one batch. Fails with [`MemoryError::Full`] or [`MemoryError::Forbidden`] if the node can
/// take no more.
fn one(
    memory: &mut impl Memory,
    batch: &[Page],
    to: NodeId,
    done: &mut Done,
) -> Result<(), MemoryError> {
    let mut going: Vec<(Page, NodeId)> = Vec::with_capacity(batch.len());
    for (&page, found) in batch.iter().zip(memory.query(batch)?) {
        match found {
            Ok(there) if there == to => {}
            Ok(from) => going.push((page, from)),
            // A region is ordered as a whole, including pages that do not exist.
            Err(Obstacle::Untouched | Obstacle::Unmapped) => {}
            Err(obstacle) => done.refuse(obstacle, 1),
        }
    }
    if going.is_empty() {
        return Ok(());
    }
    let pages: Vec<Page> = going.iter().map(|(page, _)| *page).collect();
    let result = memory.move_pages(&pages, to);
    let why = match &result {
        Ok(()) => Obstacle::Busy,
        Err(MemoryError::Full) => Obstacle::Full,
        Err(MemoryError::EmptyPool) => Obstacle::Pool,
        Err(MemoryError::Forbidden) => Obstacle::Forbidden,
        Err(_) => return result,
    };
    for (&(page, from), found) in going.iter().zip(memory.query(&pages)?) {
        match found {
            Ok(there) if there == to => done.moved.push(Moved { page, from, to }),
            Ok(_) => done.refuse(why, 1),
            Err(obstacle) => done.refuse(obstacle, 1),
        }
    }
    result
}
