//! Sets of small numbers, as the bits of a word.

/// Calls for each bit of a mask.
#[inline]
pub(crate) fn for_each_cpu(mut mask: u64, mut call: impl FnMut(usize)) {
    while mask != 0 {
        call(mask.trailing_zeros() as usize);
        mask &= mask - 1;
    }
}
