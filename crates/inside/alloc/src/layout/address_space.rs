//! The address space: one reservation, in which the node of a pointer is computed from the address.
//!
//! ```text
//!  base          + stride       + 2 stride
//!  | node 0      | node 1      | ...      || map | advice | spans | free bits | slots of node 0 | ..
//!    payload       payload                   2 B   1 B a    32 B    128 B       1 KiB each
//!                                                  chunk
//!                                            -------- for every page ---------
//! ```
//!
//! Nodes are counted densely here: 0 is the first one that this process may use. On machines with
//! several nodes, further regions follow, each with a state of its own, which hold only large
//! blocks. The payload has no headers. Its descriptions lie in tables by page number, out of the
//! reach of an overflowing program, and on the same node as the pages that they describe (numalloc
//! section 3.1: the location of an object is computed from its address).
//!
//! Nothing is accessible at first. Payload and tables become accessible step by step, so that
//! limits, `mlockall` and strict overcommit see only what is used.

use core::ptr::{null, null_mut};
use core::sync::atomic::AtomicU8;

use numapilot_syscall::policy::{self, Mode};

use crate::config;
use crate::layout::class_map::{Entry, Slot as MapSlot};
use crate::layout::node_map::{self, Home, MAX_REGIONS, NodeMap};
use crate::layout::size_class::{HUGE_PAGES, PAGE, PAGE_SHIFT, QUANTUM};
use crate::layout::span::Span;
use crate::os::kernel;

/// Words of free bits for a page: one bit for each object of the smallest class. Those of a span
/// follow one another, starting with its first page's.
pub const BITS_WORDS: usize = PAGE / QUANTUM / 64;
const BITS_BYTES: usize = BITS_WORDS * 8;
/// Tables become writable in pieces of this many bytes, a multiple of every system's page.
const COMMIT: usize = 64 << 10;
/// Bytes of a slot, which holds one magazine.
pub const SLOT: usize = 1 << 10;
/// Bytes of a region's slots that are accessible from the start. The first slots hold the region's
/// own state.
pub const FIRST_SLOTS: usize = 256 << 10;

/// Address space of a node: 2^40 by default, larger than the memory of one.
const STRIDE_SHIFT_MAX: u32 = 40;
/// A smaller stride is of no use.
const STRIDE_SHIFT_MIN: u32 = 24;
/// Most address space for the slots of a region.
const SLOTS_SHIFT_MAX: u32 = 35;

/// The reservation and its parts. All addresses are fixed once it exists.
pub struct AddressSpace {
    /// Where the payload of node 0 begins; a multiple of 2 MiB.
    pub base: usize,
    stride_shift: u32,
    slots_shift: u32,
    map: *const MapSlot,
    advice: *const AtomicU8,
    spans: *mut Span,
    bits: *mut u64,
    slots: usize,
    nodes: NodeMap,
    has_owners: bool,
}

// SAFETY: its fields do not change once it is made. What is behind the addresses is reached by
// unsafe functions, whose callers hold the lock of the region or own the memory.
unsafe impl Sync for AddressSpace {}

impl AddressSpace {
    /// The state before the space is reserved.
    pub const NONE: Self = Self {
        base: 0,
        stride_shift: 0,
        slots_shift: 0,
        map: null(),
        advice: null(),
        spans: null_mut(),
        bits: null_mut(),
        slots: 0,
        nodes: NodeMap::NONE,
        has_owners: false,
    };

    /// Reserves the address space; returns whether the kernel granted it. The state of each region
    /// is then all zeroes.
    pub fn make(&mut self) -> bool {
        // The settings decide what is reserved.
        config::read();
        self.nodes = node_map::find();
        // They take 128 KiB of a thread's share of the address space.
        self.has_owners = config::get().origin && !kernel::has_memory_limit();
        // Pages are numbered over all regions, with 32 bits.
        let most = u32::BITS + PAGE_SHIFT - self.nodes.regions().next_power_of_two().ilog2();
        let mut shift = STRIDE_SHIFT_MAX.min(most);
        if let Some(limit) = kernel::address_space_limit() {
            // Half of the limit: the program, its stacks and files need the rest.
            let share = limit / 2 / self.nodes.regions();
            shift = shift.min(share.max(1).ilog2());
        }
        while shift >= STRIDE_SHIFT_MIN {
            if self.reserve(shift) {
                return true;
            }
            shift -= 1;
        }
        false
    }

    /// Reserves everything with this stride.
    fn reserve(&mut self, stride_shift: u32) -> bool {
        const HUGE: usize = 2 << 20;
        let count = self.nodes.regions();
        let pages = count << (stride_shift - PAGE_SHIFT);
        let slots_shift = (stride_shift - 2).min(SLOTS_SHIFT_MAX);
        let map_bytes = (pages * size_of::<MapSlot>()).next_multiple_of(COMMIT);
        let advice_bytes = pages / HUGE_PAGES as usize + 1;
        let parts = [
            count << stride_shift,
            (map_bytes + advice_bytes).next_multiple_of(HUGE),
            (pages * size_of::<Span>()).next_multiple_of(HUGE),
            (pages * BITS_BYTES).next_multiple_of(HUGE),
            count << slots_shift,
        ];
        let bytes = parts.iter().sum::<usize>() + HUGE;
        let Ok(start) = kernel::reserve(bytes) else { return false };
        let mut starts = [0; 5];
        let mut next = start.next_multiple_of(HUGE);
        for (start, bytes) in starts.iter_mut().zip(parts) {
            *start = next;
            next += bytes;
        }
        self.base = starts[0];
        self.map = starts[1] as *const MapSlot;
        self.advice = (starts[1] + map_bytes) as *const AtomicU8;
        self.spans = starts[2] as *mut Span;
        self.bits = starts[3] as *mut u64;
        self.slots = starts[4];
        self.stride_shift = stride_shift;
        self.slots_shift = slots_shift;
        // SAFETY: the range was just reserved. The tables are sparse.
        unsafe { kernel::ask_for_small(starts[1], start + bytes - starts[1]) };
        // The whole map is readable from the start, so that any pointer into the payload can be
        // looked up, even one that was never handed out.
        // SAFETY: the range was just reserved.
        let mapped = unsafe {
            kernel::make_readable(starts[1], map_bytes)
                .and_then(|()| kernel::commit(starts[1] + map_bytes, advice_bytes))
                .is_ok()
        };
        let started = mapped && (0..count).all(|region| self.prepare(region));
        if !started {
            // SAFETY: no part of it has been handed out.
            unsafe { kernel::unreserve(start, bytes) };
        }
        started
    }

    /// Advises a region's payload, and makes its first slots accessible; returns whether that was
    /// possible.
    fn prepare(&self, region: usize) -> bool {
        let slots = self.state(region);
        // SAFETY: within the reservation, not used yet.
        unsafe {
            self.advise_as_region(region, self.payload(region), self.stride());
            self.place(region, slots, FIRST_SLOTS);
            kernel::commit(slots, FIRST_SLOTS).is_ok()
        }
    }

    /// Gives a range the advice of its region.
    ///
    /// # Safety
    /// The range lies in the region's payload.
    pub unsafe fn advise_as_region(&self, region: usize, start: usize, bytes: usize) {
        if self.has_small_pages(region) {
            // SAFETY: by contract.
            unsafe { kernel::ask_for_small(start, bytes) };
        }
    }

    /// Whether a region is advised to have small pages. A huge page would put blocks that threads of
    /// several nodes touch on the node of the first touch.
    pub fn has_small_pages(&self, region: usize) -> bool {
        self.nodes.is_shared(region) || !config::get().huge_pages
    }

    /// Requests that a range of a node's memory come from that node, if that makes a difference and
    /// the user has not set another policy.
    pub fn place(&self, node: usize, start: usize, bytes: usize) {
        // This is only a preference: if it fails, memory comes from elsewhere.
        let _ = match self.nodes.home(node) {
            Home::Anywhere => Ok(()),
            Home::Node(id) => {
                policy::set_of_range(start, bytes, Mode::Preferred, &policy::only(id), false)
            }
            Home::All(nodes) => policy::set_of_range(start, bytes, Mode::Interleave, &nodes, false),
        };
    }

    /// Whether small objects return to the thread that took their span.
    #[inline]
    pub fn has_owners(&self) -> bool {
        self.has_owners
    }

    /// The nodes that memory is taken from.
    pub fn nodes(&self) -> &NodeMap {
        &self.nodes
    }

    /// The address of a region's state: the beginning of its slots.
    ///
    /// `region` is below the number of regions.
    #[inline]
    pub fn state(&self, region: usize) -> usize {
        debug_assert!(region < self.nodes.regions());
        self.slots + (region << self.slots_shift)
    }

    /// The start of a node's payload.
    #[inline]
    pub fn payload(&self, node: usize) -> usize {
        self.base + (node << self.stride_shift)
    }

    /// Bytes of a node's payload.
    #[inline]
    pub fn stride(&self) -> usize {
        1 << self.stride_shift
    }

    /// The node whose payload contains this address; `None` if it is not ours.
    #[inline]
    pub fn node_of(&self, address: usize) -> Option<usize> {
        let node = address.wrapping_sub(self.base) >> self.stride_shift;
        (node < self.nodes.regions()).then_some(node)
    }

    /// Page number of a payload address, over all nodes.
    #[inline]
    pub fn page_of(&self, address: usize) -> u32 {
        ((address - self.base) >> PAGE_SHIFT) as u32
    }

    /// Address of a page.
    #[inline]
    pub fn address_of(&self, page: u32) -> usize {
        self.base + ((page as usize) << PAGE_SHIFT)
    }

    /// First page of a node.
    #[inline]
    pub fn first_page(&self, node: usize) -> u32 {
        (node << (self.stride_shift - PAGE_SHIFT)) as u32
    }

    /// Number of pages of a node.
    #[inline]
    pub fn pages_per_node(&self) -> u32 {
        1 << (self.stride_shift - PAGE_SHIFT)
    }

    /// The class map from a page on; writable below the node's frontier.
    #[inline]
    pub fn map(&self, page: u32) -> *const MapSlot {
        self.map.wrapping_add(page as usize)
    }

    /// What lies in a page, which is a page of the payload.
    #[inline]
    pub fn entry(&self, page: u32) -> Entry {
        // SAFETY: the map covers the payload, and is readable from the start.
        unsafe { &*self.map(page) }.get()
    }

    /// Enters what lies in a page of the payload, which is accessible.
    #[inline]
    pub fn set_entry(&self, page: u32, entry: Entry) {
        // SAFETY: the map is writable where the payload is accessible.
        unsafe { &*self.map(page) }.set(entry);
    }

    /// What lies where this address of the payload is.
    #[inline]
    pub fn entry_of(&self, address: usize) -> Entry {
        self.entry(self.page_of(address))
    }

    /// The advice that the kernel was given for the chunk of a page: see
    /// `crate::page_heap::advice`.
    #[inline]
    pub fn advice(&self, page: u32) -> &AtomicU8 {
        let pages = self.nodes.regions() << (self.stride_shift - PAGE_SHIFT);
        assert!(page as usize <= pages);
        // SAFETY: the table has an entry for each chunk and one after the last, and is accessible
        // from the start; any byte is valid.
        unsafe { &*self.advice.add((page / HUGE_PAGES) as usize) }
    }

    /// The description of the span that starts at a page; accessible below the node's
    /// frontier.
    #[inline]
    pub fn span(&self, page: u32) -> *mut Span {
        self.spans.wrapping_add(page as usize)
    }

    /// The free bits of the span that starts at a page; accessible together with its description.
    #[inline]
    pub fn bits(&self, page: u32) -> *mut u64 {
        self.bits.wrapping_add(page as usize * BITS_WORDS)
    }

    /// Makes pages and their descriptions accessible.
    ///
    /// # Safety
    /// The pages belong to this node and have not been accessible before; the caller holds the
    /// node's page lock.
    pub unsafe fn commit(&self, node: usize, first: u32, pages: u32) -> bool {
        let ranges = [
            (self.address_of(first), pages as usize * PAGE),
            (self.map(first) as usize, pages as usize * size_of::<MapSlot>()),
            (self.span(first) as usize, pages as usize * size_of::<Span>()),
            (self.bits(first) as usize, pages as usize * BITS_BYTES),
        ];
        ranges.iter().all(|&(start, bytes)| {
            let end = (start + bytes).next_multiple_of(COMMIT);
            let start = start & !(COMMIT - 1);
            // SAFETY: within the reservation; the ends of tables may be made accessible twice.
            unsafe {
                self.place(node, start, end - start);
                kernel::commit(start, end - start).is_ok()
            }
        })
    }

    /// Address of a slot, counted over all regions.
    #[inline]
    pub fn slot(&self, index: u32) -> usize {
        self.slots + index as usize * SLOT
    }

    /// Number of the slot at an address. It is never 0 for a magazine, because the first region's
    /// state is there.
    #[inline]
    pub fn slot_index(&self, address: usize) -> u32 {
        ((address - self.slots) / SLOT) as u32
    }

    /// First slot of a node.
    #[inline]
    pub fn first_slot(&self, node: usize) -> u32 {
        ((node << self.slots_shift) / SLOT) as u32
    }

    /// Number of slots of a node.
    #[inline]
    pub fn slots_per_node(&self) -> u32 {
        (1usize << self.slots_shift).div_ceil(SLOT) as u32
    }

    /// The node to which this slot belongs.
    #[inline]
    pub fn node_of_slot(&self, index: u32) -> usize {
        (index as usize * SLOT) >> self.slots_shift
    }
}

const _: () = assert!((MAX_REGIONS << SLOTS_SHIFT_MAX) / SLOT <= 1 << 32);

#[cfg(test)]
mod tests {
    extern crate std;

    use std::fs;
    use std::path::Path;

    use super::*;

    /// Whether the kernel was advised to keep huge pages out of the mapping that contains an
    /// address (its `VmFlags`, proc_pid_smaps(5)).
    fn stays_small(address: usize) -> bool {
        let holds = |line: &str| {
            let (start, end) = line.split_once(' ')?.0.split_once('-')?;
            let number = |text| usize::from_str_radix(text, 16).ok();
            Some((number(start)?..number(end)?).contains(&address))
        };
        let smaps = fs::read_to_string("/proc/self/smaps").expect("smaps of this process");
        let mut lines = smaps.lines().skip_while(|line| holds(line) != Some(true));
        let flags = lines.find_map(|line| line.strip_prefix("VmFlags:"));
        flags.expect("a mapping").split_whitespace().any(|flag| flag == "nh")
    }

    #[test]
    fn tables_are_kept_on_small_pages_and_objects_are_not() {
        if !Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            std::println!("skipped: this kernel has no transparent huge pages");
            return;
        }
        let mut space = AddressSpace::NONE;
        assert!(space.make());
        let page = space.first_page(0) + 1;
        assert!(stays_small(space.map(page) as usize));
        assert!(stays_small(space.span(page) as usize));
        assert!(stays_small(space.bits(page) as usize));
        assert!(stays_small(space.slot(space.first_slot(0))));
        assert!(!stays_small(space.payload(0)));
    }
}
