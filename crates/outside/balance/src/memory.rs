//! Where a target's pages are, and moving them: the kernel, or a simulator, behind one face.

use std::io;

use numapilot_topology::{NodeId, NodeSet};
use serde::Serialize;
use thiserror::Error;

use crate::evidence::{Page, Region};

/// Why a page is not where one wanted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Obstacle {
    /// Nobody has touched it, or it was given back.
    Untouched,
    /// It is no memory of the target, or the zero page.
    Unmapped,
    /// Other processes have it, too.
    Shared,
    /// It is pinned, or being moved by someone else.
    Busy,
    /// The destination has no memory left.
    Full,
    /// It is of hugetlbfs, and no page is free in the destination's pool.
    Pool,
    /// The destination is offline, or outside of the target's cpuset.
    Forbidden,
    /// It is part of a huge page that cannot be split.
    Huge,
}

/// A page: its node, or why it has none.
pub type Whereabouts = Result<NodeId, Obstacle>;

/// Why nothing could be done to any page of a call.
#[derive(Debug, Error)]
pub enum MemoryError {
    /// The target has ended.
    #[error("the process has ended")]
    Gone,
    /// The destination has no memory left; some of the pages may have been moved.
    #[error("the node has no memory left")]
    Full,
    /// Only pages of hugetlbfs were refused, by an empty pool; the others have been moved.
    #[error("no huge page is free in the node's pool (/sys/devices/system/node/node*/hugepages)")]
    EmptyPool,
    /// The destination may not be used.
    #[error("the node is offline or outside of the process's cpuset")]
    Forbidden,
    /// Not one's own process.
    #[error(
        "the pages of this process may not be moved: run as its user, or as root (CAP_SYS_NICE)"
    )]
    NotPermitted,
    /// Anything else.
    #[error("pages cannot be moved: {0}")]
    Other(io::Error),
}

/// The memory of one process.
pub trait Memory {
    /// Where pages are.
    ///
    /// # Errors
    /// [`MemoryError`] when none can be looked up.
    fn query(&mut self, pages: &[Page]) -> Result<Vec<Whereabouts>, MemoryError>;

    /// Moves pages to one node. What has become of them [`Memory::query`] tells.
    ///
    /// # Errors
    /// [`MemoryError`]; some may have been moved before.
    fn move_pages(&mut self, pages: &[Page], to: NodeId) -> Result<(), MemoryError>;

    /// Which of these regions are huge pages. One that cannot be found out is none: its pages
    /// then move together all the same.
    fn huge(&mut self, regions: &[Region]) -> Vec<bool>;

    /// Whether huge pages can be split at all.
    fn can_split(&self) -> bool;

    /// Splits huge pages into pages that move one by one; which of these regions are none any
    /// more.
    fn split(&mut self, regions: &[Region]) -> Vec<bool>;

    /// What is touched in these regions, which ascend, from now on goes to these nodes in turn;
    /// without nodes, to where the process's policy says. Bytes for which that can be had.
    fn first_touch(&mut self, regions: &[Region], over: &NodeSet) -> u64;

    /// A clock that moving takes time on.
    fn now_ns(&self) -> u64;
}
