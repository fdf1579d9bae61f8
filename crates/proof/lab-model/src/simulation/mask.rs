//! Sets of small numbers, as bits of a word.

/// Calls a function for each bit of a mask.
#[inline]
pub(crate) fn for_each_cpu(mut mask: u64, mut call: impl FnMut(usize)) {
    while mask != 0 {
        call(mask.trailing_zeros() as usize);
        mask &= mask - 1;
    }
}
