//! What a decision is.

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

/// Consecutive pages to be moved to one node. Those that are there already stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The first page.
    pub start: Page,
    /// How many.
    pub pages: u32,
    /// Destination.
    pub to: NodeId,
    /// Why.
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

    /// Bytes at the most.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.pages as u64 * Page::BYTES
    }
}

/// Where memory goes that is touched from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstTouch {
    /// Of which region.
    pub region: Region,
    /// To all nodes in turn, or as the process's policy says.
    pub spread: bool,
}

/// A page that was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Which.
    pub page: Page,
    /// Where it was.
    pub from: NodeId,
    /// Where it is.
    pub to: NodeId,
}

/// What is being done, in a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Too little was seen to decide by.
    #[default]
    Waiting,
    /// There is nothing to gain worth its cost.
    Idle,
    /// There was nothing to gain for long: sampling may rest.
    GivenUp,
    /// Pages are moved.
    Moving,
    /// Moves did not help: they are undone, and nothing is done for a while.
    BackingOff,
}

impl State {
    /// As it is shown.
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

/// Memory that a copy for each node would serve best: it is read from several and not written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replicable {
    /// The first page.
    pub start: Page,
    /// How many.
    pub pages: u64,
    /// Time that copies would save, as a share of all time lost on memory.
    pub gain: f64,
}

/// What was seen, what follows, and the orders.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The evidence in figures.
    pub metrics: Metrics,
    /// What follows from it.
    pub state: State,
    /// Whether pages with several users may be spread.
    pub interleaves: bool,
    /// Whether pages with one user may be moved to it.
    pub collocates: bool,
    /// Pages that a copy for each node would serve best.
    pub replicable: usize,
    /// Where they are, and what copies would save, in default mode.
    pub copies: Vec<Replicable>,
    /// Time that would be saved, as a share of all time lost on memory, where it is known.
    pub gain: Option<f64>,
    /// Huge pages that are to be split before the orders are carried out, in ascending order.
    pub splits: Vec<Region>,
    /// In ascending order of regions; no region twice.
    pub first_touch: Vec<FirstTouch>,
    /// In ascending order of pages; no page twice.
    pub orders: Vec<Order>,
}
