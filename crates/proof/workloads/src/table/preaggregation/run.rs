//! The collected records of one group: their number and, if `N` is above 0, their values.

/// Up to `N` values of one group. With `N` = 0, only their number, without a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<const N: usize> {
    pub(super) length: u64,
    pub(super) values: [u64; N],
}

impl<const N: usize> Run<N> {
    /// One record.
    #[inline]
    pub(super) fn of(value: u64) -> Self {
        let mut run = Self { length: 1, values: [0; N] };
        if let Some(first) = run.values.first_mut() {
            *first = value;
        }
        run
    }

    /// The number of records.
    #[inline]
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// Their values.
    #[inline]
    #[must_use]
    pub fn values(&self) -> &[u64] {
        &self.values[..N.min(self.length as usize)]
    }

    /// The values, if there are `N` of them.
    #[inline]
    #[must_use]
    pub fn full(&self) -> Option<[u64; N]> {
        (self.length == N as u64).then_some(self.values)
    }
}

impl<const N: usize> Default for Run<N> {
    fn default() -> Self {
        Self { length: 0, values: [0; N] }
    }
}
