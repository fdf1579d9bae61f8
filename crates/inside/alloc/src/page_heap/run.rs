//! Runs of pages: their purpose, and where they begin.

/// The purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Small objects, span after span: all of it will be used, and soon.
    Objects,
    /// A block, of which the owner may use any part, or none.
    Block,
    /// A block that grows, to which the contents of a shorter one will be moved.
    Target,
}

/// Where a run must begin: at a page whose number, counted from address 0, leaves `rest` when
/// divided by `by`, a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// The divisor; 1: anywhere.
    pub by: u32,
    /// The remainder, below `by`.
    pub rest: u32,
}

impl Begin {
    /// At any page.
    pub const ANYWHERE: Self = Self { by: 1, rest: 0 };

    /// At a multiple of this many pages, a power of two.
    pub fn at_multiple_of(pages: u32) -> Self {
        Self { by: pages, rest: 0 }
    }

    /// Number of pages from this one, counted from address 0, to the first at which a run may
    /// begin.
    pub fn skip(self, page: usize) -> u32 {
        (self.rest.wrapping_sub(page as u32)) & (self.by - 1)
    }
}

/// A run taken from the page heap.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Its first page.
    pub page: u32,
    /// Its length.
    pub pages: u32,
    /// Whether it is known to be all zeroes.
    pub zero: bool,
}
