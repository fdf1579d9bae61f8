//! The types of a decision.

use std::fmt;

use numapilot_topology::NodeId;
use serde::{Deserialize, Serialize};

use crate::evidence::{Page, Region};
use crate::metrics::Metrics;

/// Why pages are to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// To the node that uses them.
    Collocate,
    /// Away from a node with too much load.
    Interleave,
    /// Back, because the last move did not help.
    Undo,
}

/// An order to move consecutive pages to one node. Pages that are already there stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The first page.
    pub start: Page,
    /// The number of pages.
    pub pages: u32,
    /// Destination.
    pub to: NodeId,
    /// The reason.
    pub why: Why,
}

impl Order {
    /// The pages.
    pub fn each(self) -> impl Iterator<Item = Page> {
        (self.start.0..self.start.0 + u64::from(self.pages)).map(Page)
    }

    /// Whether it covers a region.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.pages == Region::PAGES
    }

    /// The most bytes that it can move.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.pages as u64 * Page::BYTES
    }
}

/// A change of the placement of memory that is touched from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstTouch {
    /// The region.
    pub region: Region,
    /// Whether to spread over all nodes in turn, or to follow the process's policy.
    pub spread: bool,
}

/// A page that was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The page.
    pub page: Page,
    /// Where it was.
    pub from: NodeId,
    /// Where it is.
    pub to: NodeId,
}

/// The state of balancing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// There are too few samples to decide.
    #[default]
    Waiting,
    /// No move is worth its cost.
    Idle,
    /// No move was worth its cost for long, so sampling may pause.
    GivenUp,
    /// Pages are moved.
    Moving,
    /// Moves did not help. They are rolled back, and nothing else is moved for a while.
    BackingOff,
}

impl State {
    /// The text that is shown to the user.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Idle => "idle",
            Self::GivenUp => "given_up",
            Self::Moving => "moving",
            Self::BackingOff => "backing_off",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Memory that would gain most from a copy on each node: several nodes read it, and it is not
/// written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replicable {
    /// The first page.
    pub start: Page,
    /// The number of pages.
    pub pages: u64,
    /// Time that copies would save, as a share of all time lost on memory.
    pub gain: f64,
}

/// The figures of an interval, the resulting state, and the orders.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The evidence in figures.
    pub metrics: Metrics,
    /// The resulting state.
    pub state: State,
    /// Whether pages with several users may be spread.
    pub interleaves: bool,
    /// Whether pages with one user may be moved to it.
    pub collocates: bool,
    /// Pages that would gain most from a copy on each node.
    pub replicable: usize,
    /// These pages and the gain of copies; in default mode only.
    pub copies: Vec<Replicable>,
    /// Time that the moves would save, as a share of all time lost on memory, if known.
    pub gain: Option<f64>,
    /// Huge pages that are to be split before the orders are carried out, in ascending order.
    pub splits: Vec<Region>,
    /// Changes in ascending order of regions, at most one per region.
    pub first_touch: Vec<FirstTouch>,
    /// Orders in ascending order of pages, at most one per page.
    pub orders: Vec<Order>,
}
