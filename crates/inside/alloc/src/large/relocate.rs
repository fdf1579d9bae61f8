//! Moves the contents of a large block by the page tables instead of copying them.
//!
//! mremap(2) takes pages out of one range and puts them into another (MREMAP_DONTUNMAP, Linux 5.7).
//! The kernel numbers the pages of a mapping in the order of their addresses, and pages keep their
//! numbers when they move. So a block that was moved is a mapping of its own, and each time that it
//! grows and moves again it adds one more:
//!
//! ```text
//!  after the first move    | moved ........ | grown |
//!  after the second        | moved ........ | moved | grown ......... |
//!                                           ^       ^ cuts
//! ```
//!
//! [`crate::page_heap::mapping_budget`] counts them. If there are too many, blocks are copied. A
//! block that is freed is mapped anew, which merges it with its neighbours' mapping again.
//!
//! One call moves one mapping. Before Linux 6.17 the kernel refuses a range of several, but only
//! after it has unmapped the target. Since then it may move some of them and then refuse. So each
//! part is checked before anything is moved.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::config;
use crate::layout::address_space::AddressSpace;
use crate::layout::size_class::{PAGE, pages_in};
use crate::layout::span::{CUTS, Span};
use crate::os::kernel::{self, Refused};
use crate::os::report;
use crate::page_heap::mapping_budget;

/// A block of this many pages or more is moved instead of copied.
pub const MOVE_FROM: u32 = pages_in(2 << 20);

/// Mappings that a move adds at the destination: the one that arrives, and that of the memory after
/// it.
const TARGET: u32 = 2;
/// Mappings that it adds at the source, until that is mapped anew.
const SOURCE: u32 = 2;

/// The kernel does not move pages.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Moves the first `bytes` of the block that begins at a page to another one; returns whether no
/// memory is left at the source. The descriptions of both blocks then record what to undo when they
/// are freed.
///
/// # Safety
/// Both blocks belong to the caller and have that many bytes, in whole pages, and `to` has more.
pub unsafe fn transfer(space: &AddressSpace, page: u32, to: *mut u8, bytes: usize) -> bool {
    let from = space.address_of(page);
    // SAFETY: only their owner, the caller, changes the descriptions of blocks.
    let (source, target) =
        unsafe { (&mut *space.span(page), &mut *space.span(space.page_of(to as usize))) };
    // SAFETY: by contract.
    if !unsafe { prepare(space, source, from, to as usize, bytes) } {
        // SAFETY: by contract; two blocks do not overlap.
        unsafe { to.copy_from_nonoverlapping(from as *const u8, bytes) };
        return false;
    }
    target.since += source.since - SOURCE + TARGET;
    target.set_cuts(source.cuts());
    target.add_cut((bytes / PAGE) as u32);
    target.listed = true;
    let mut is_empty = true;
    for part in parts(source, bytes) {
        // SAFETY: by contract.
        is_empty &=
            unsafe { transfer_part(from + part.start, to as usize + part.start, part.len()) };
    }
    is_empty
}

/// The parts of a block, each of which should be one mapping, in bytes from its start.
fn parts(span: &Span, bytes: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let cuts = span.cuts();
    (0..=CUTS).filter_map(move |index| {
        let start = if index == 0 { 0 } else { cuts[index - 1] as usize * PAGE };
        let end = match cuts.get(index) {
            Some(&cut) if cut != 0 => (cut as usize * PAGE).min(bytes),
            _ => bytes,
        };
        // No cut is 0, and no part begins after the last cut.
        (start < end && (index == 0 || start > 0)).then_some(start..end)
    })
}

/// Whether a block may be moved. If so, the added mappings are counted, and its description records
/// what to undo at the source.
///
/// # Safety
/// As [`transfer`].
unsafe fn prepare(
    space: &AddressSpace,
    source: &mut Span,
    from: usize,
    to: usize,
    bytes: usize,
) -> bool {
    if bytes < MOVE_FROM as usize * PAGE
        // Other regions have other policies.
        || space.node_of(from) != space.node_of(to)
        || source.cuts()[CUTS - 1] != 0
        || REFUSED.load(Ordering::Relaxed)
        // The kernel would count the pages twice, after it has unmapped the target.
        || kernel::has_memory_limit()
    {
        return false;
    }
    let added = source.since + TARGET;
    if !mapping_budget::add(added + SOURCE, bytes) {
        return false;
    }
    // This makes one mapping of a block whose chunks were advised differently.
    if config::get().huge_pages {
        // SAFETY: by contract.
        unsafe { kernel::ask_for_huge(from, bytes) };
    }
    source.since += SOURCE;
    source.listed = true;
    // SAFETY: by contract.
    let is_one =
        |part: Range<usize>| unsafe { kernel::is_one_mapping(from + part.start, part.len()) };
    let may_move = parts(source, bytes).all(is_one);
    if !may_move {
        mapping_budget::remove(added);
    }
    may_move
}

/// Moves a part of a block that is one mapping; returns whether nothing is left at the source.
///
/// # Safety
/// Both ranges are ours and consist of whole pages; the contents of `to` are not needed.
unsafe fn transfer_part(from: usize, to: usize, bytes: usize) -> bool {
    // SAFETY: by contract.
    let Err(Refused(number)) = (unsafe { kernel::move_pages(from, to, bytes) }) else {
        return true;
    };
    if matches!(number, libc::EINVAL | libc::ENOSYS | libc::EPERM) {
        REFUSED.store(true, Ordering::Relaxed);
    }
    // SAFETY: by contract.
    unsafe {
        // The kernel may have unmapped the target before it refused, and may not map it again. Or
        // another thread's mapping may be there now.
        if kernel::map_where_nothing_is(to, bytes).is_err() && !kernel::is_mapped(to, bytes) {
            report::lost_range(to, number);
        }
        (to as *mut u8).copy_from_nonoverlapping(from as *const u8, bytes);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::global;
    use crate::large::{self, Block};

    const BYTES: usize = 5 << 20;

    /// Two blocks: the first is full, the second is longer and empty.
    fn blocks(space: &AddressSpace) -> (*mut u8, *mut u8) {
        let Block { start: from, .. } = large::allocate(space, 0, BYTES, 16);
        let Block { start: to, .. } = large::allocate_to_replace(space, 0, 2 * BYTES, 16, from);
        assert!(!from.is_null() && !to.is_null());
        for index in 0..BYTES {
            // SAFETY: the block has that many bytes.
            unsafe { *from.add(index) = (index % 251) as u8 };
        }
        (from, to)
    }

    fn check(to: *const u8) {
        for index in 0..BYTES {
            // SAFETY: the block has that many bytes.
            assert_eq!(unsafe { *to.add(index) }, (index % 251) as u8, "{index}");
        }
    }

    #[test]
    fn a_block_lies_in_two_mebibytes_as_the_one_that_it_replaces() {
        let space = global::get().expect("address space");
        let (from, to) = blocks(space);
        assert_eq!((from as usize) % (2 << 20), (to as usize) % (2 << 20));
        [from, to].into_iter().for_each(|block| assert_eq!(large::free(space, block), 0));
    }

    #[test]
    fn contents_are_transferred_again_and_again() {
        let space = global::get().expect("address space");
        let (mut from, mut to) = blocks(space);
        for round in 2..20 {
            // SAFETY: both blocks belong to the test, and the second is longer.
            assert_eq!(unsafe { large::replace(space, from, to) }, 0);
            check(to);
            from = to;
            to = large::allocate_to_replace(space, 0, (round + 1) * BYTES, 16, from).start;
        }
        [from, to].into_iter().for_each(|block| assert_eq!(large::free(space, block), 0));
    }
}
