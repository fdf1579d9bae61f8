//! Finds and moves a target's pages, through one interface to the kernel or to a simulator.

use std::io;

use numapilot_topology::{NodeId, NodeSet};
use serde::Serialize;
use thiserror::Error;

use crate::evidence::{Page, Region};

/// Why a page is not where it was to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Obstacle {
    /// It was not touched yet, or it was freed.
    Untouched,
    /// It is not memory of the target, or it is the zero page.
    Unmapped,
    /// Other processes map it too.
    Shared,
    /// It is pinned, or something else is moving it.
    Busy,
    /// The destination has no memory left.
    Full,
    /// It belongs to hugetlbfs, and the destination's pool has no free page.
    Pool,
    /// The destination is offline or outside the target's cpuset.
    Forbidden,
    /// It is part of a huge page that cannot be split.
    Huge,
}

/// The node of a page, or why it has none.
pub type Whereabouts = Result<NodeId, Obstacle>;

/// Why a call failed for all its pages.
#[derive(Debug, Error)]
pub enum MemoryError {
    /// The target has ended.
    #[error("the process has ended")]
    Gone,
    /// The destination has no memory left. Some of the pages may have been moved.
    #[error("the node has no memory left")]
    Full,
    /// Only pages of hugetlbfs were refused, because the pool is empty. The others have been moved.
    #[error("no huge page is free in the node's pool (/sys/devices/system/node/node*/hugepages)")]
    EmptyPool,
    /// The destination may not be used.
    #[error("the node is offline or outside of the process's cpuset")]
    Forbidden,
    /// The process belongs to another user.
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
    /// Looks up the nodes of pages.
    ///
    /// # Errors
    /// [`MemoryError`] if none can be looked up.
    fn query(&mut self, pages: &[Page]) -> Result<Vec<Whereabouts>, MemoryError>;

    /// Moves pages to one node. [`Memory::query`] shows the result.
    ///
    /// # Errors
    /// [`MemoryError`]; some pages may have been moved before.
    fn move_pages(&mut self, pages: &[Page], to: NodeId) -> Result<(), MemoryError>;

    /// Which of these regions are huge pages. If that is unknown, a region counts as none; its
    /// pages still move together.
    fn huge(&mut self, regions: &[Region]) -> Vec<bool>;

    /// Whether huge pages can be split at all.
    fn can_split(&self) -> bool;

    /// Splits huge pages into base pages that can move one by one. Returns which of these regions
    /// are no longer huge pages.
    fn split(&mut self, regions: &[Region]) -> Vec<bool>;

    /// Changes where new memory of these regions, which ascend, is placed from now on: on these
    /// nodes in turn, or, without nodes, by the process's policy. Returns the bytes for which that
    /// worked.
    fn first_touch(&mut self, regions: &[Region], over: &NodeSet) -> u64;

    /// The clock that measures moves.
    fn now_ns(&self) -> u64;
}
