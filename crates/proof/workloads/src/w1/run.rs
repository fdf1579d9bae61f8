//! Values of one group that a thread has gathered: they go to the group's buffer under one
//! lock and in one append.

use crate::table::preaggregation::Partial;

/// Values of a full run: a key in the table of partial results and its run together
/// take a cache line.
pub const RUN: usize = 6;

/// Up to [`RUN`] values.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    length: u64,
    values: [u64; RUN],
}

impl Run {
    /// Its values.
    #[inline]
    pub fn values(&self) -> &[u64] {
        &self.values[..(self.length as usize).min(RUN)]
    }

    /// Its values if it is full.
    #[inline]
    pub fn full(&self) -> Option<[u64; RUN]> {
        self.is_full().then_some(self.values)
    }
}

impl Partial for Run {
    #[inline]
    fn add(&mut self, value: u64) {
        self.values[self.length as usize % RUN] = value;
        self.length += 1;
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.length == RUN as u64
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.length == 0
    }
}
