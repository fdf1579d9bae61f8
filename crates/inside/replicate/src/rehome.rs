//! Moves memory that a forked child has inherited to the node where the child runs.
//!
//! A child shares its parent's pages until one of them writes. Writing to each page without
//! changing it (MADV_POPULATE_WRITE) gives the child its own frames, from its node. This is always
//! safe, because copy-on-write does the same. Pages that only the child has are migrated.

use core::ffi::c_int;
use core::ops::Range;

use numapilot_syscall::Refused;
use numapilot_syscall::caller::{self, page_size};
use numapilot_syscall::policy::{self, Mode};

use crate::error::Error;
use crate::kernel;
use crate::nodes::Nodes;

/// Pages looked up at a time.
const BATCH: usize = 512;

/// The result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rehomed {
    /// Pages that were in memory on other nodes.
    pub found: usize,
    /// How many of them are now on the caller's node.
    pub moved: usize,
}

/// Moves the whole pages of some memory to the node where the caller runs. Pages shared with parent
/// and siblings are copied, others are migrated. Untouched pages stay untouched, and come from this
/// node once they are touched. The contents do not change.
///
/// # Errors
/// [`Error::NotRehomed`] when the memory is not writable, or the kernel refuses.
pub fn rehome<T: ?Sized>(memory: &T) -> Result<Rehomed, Error> {
    rehome_range(core::ptr::from_ref(memory).cast::<u8>() as usize, size_of_val(memory))
}

/// [`rehome`] by address. A range that is not mapped gives an error and changes nothing.
///
/// # Errors
/// As [`rehome`].
pub fn rehome_range(start: usize, bytes: usize) -> Result<Rehomed, Error> {
    let refused = |errno| Error::NotRehomed { errno };
    let page = page_size();
    let end = start.checked_add(bytes).ok_or(Error::TooLarge)?;
    let end = end - end % page;
    let start = start.checked_next_multiple_of(page).ok_or(Error::TooLarge)?;
    let mut rehomed = Rehomed::default();
    if start >= end || Nodes::get().map_err(refused)?.count() == 1 {
        return Ok(rehomed);
    }
    let (_, here) = caller::cpu_and_node().map_err(|Refused(errno)| refused(errno))?;
    let bytes = end - start;
    // If the kernel refuses, copied pages still come from the node where the caller runs.
    let _ = policy::set_of_range(start, bytes, Mode::Preferred, &policy::only(here), false);
    let mut copied = Ok(());
    // One call copies adjacent pages.
    let mut run = start..start;
    let mut copy = |run: &Range<usize>| {
        if copied.is_ok() && !run.is_empty() {
            copied = kernel::populate(run.start, run.len());
        }
    };
    each_page(start, bytes, |page_start, node| {
        if node >= 0 && node != here.cast_signed() {
            rehomed.found += 1;
            if run.end != page_start {
                copy(&run);
                run = page_start..page_start;
            }
            run.end += page;
        }
    })?;
    copy(&run);
    copied.map_err(refused)?;
    // Pages that were not shared were not copied.
    let _ = policy::set_of_range(start, bytes, Mode::Preferred, &policy::only(here), true);
    let mut left = 0;
    each_page(start, bytes, |_, node| {
        left += usize::from(node >= 0 && node != here.cast_signed());
    })?;
    rehomed.moved = rehomed.found.saturating_sub(left);
    Ok(rehomed)
}

/// Calls `each` with the address and node of every page of a range; the node is negative where
/// there is no page.
pub(crate) fn each_page(
    start: usize,
    bytes: usize,
    mut visit: impl FnMut(usize, c_int),
) -> Result<(), Error> {
    let page = page_size();
    let (mut next, end) = (start - start % page, start + bytes);
    while next < end {
        let (mut pages, mut nodes) = ([0; BATCH], [-1; BATCH]);
        let count = (end - next).div_ceil(page).min(BATCH);
        for (index, address) in pages[..count].iter_mut().enumerate() {
            *address = next + index * page;
        }
        kernel::nodes_of(&pages[..count], &mut nodes[..count])
            .map_err(|errno| Error::NotRehomed { errno })?;
        pages[..count].iter().zip(&nodes[..count]).for_each(|(page, node)| visit(*page, *node));
        next += count * page;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_rehomed_is_reported() {
        let bytes = vec![1u8; 1 << 16];
        // On one node there is nothing to do.
        let done = rehome(&bytes[..]).unwrap();
        assert_eq!(done.moved, done.found);
        assert!(bytes.iter().all(|byte| *byte == 1));
        assert_eq!(rehome_range(4096, 0), Ok(Rehomed::default()));
        assert_eq!(rehome_range(usize::MAX - 1, 2), Err(Error::TooLarge));
    }
}
