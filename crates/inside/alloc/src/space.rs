//! The address space: one reservation, in which a pointer's node is arithmetic.
//!
//! ```text
//!  base          + stride       + 2 stride
//!  | node 0      | node 1      | ...      || map | advice | spans | free bits | magazines of 0 | ..
//!    payload       payload                   1 B   1 B a    32 B    128 B       1 KiB each
//!                                                  chunk
//!                                            -------- for every page ---------
//! ```
//!
//! Nodes are counted densely here: 0 is the first one that this process may use. On machines
//! with several there are further regions behind them, with a state of their own each, which
//! hold large blocks only. Payload
//! carries no headers. What describes it lies in tables by page number, out of the reach of
//! an overflowing program, and on the same node as the pages described (numalloc section
//! 3.1: the location of an object is computed from its address).
//!
//! Nothing is accessible at first; payload and tables are made so step by step, so that
//! limits, `mlockall` and strict overcommit see only what is used.

use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::class::{HUGE_PAGES, PAGE, PAGE_SHIFT};
use crate::kernel;
use crate::magazine::Magazine;
use crate::node::Node;
use crate::nodes::{self, Home, MAX_REGIONS, Nodes};
use crate::span::Span;

/// Words of free bits for a page: one bit for each object of the smallest class. Those of a
/// span lie one after the other from its first page's.
pub const BITS_WORDS: usize = PAGE / crate::class::GRAIN / 64;
const BITS_BYTES: usize = BITS_WORDS * 8;
const MAGAZINE_BYTES: usize = size_of::<Magazine>();
/// Magazines of a node start with its own state.
pub const NODE_SLOTS: usize = size_of::<Node>().div_ceil(MAGAZINE_BYTES);

/// Address space of a node: 2^40 by default, larger than the memory of one.
const STRIDE_SHIFT_MAX: u32 = 40;
/// Below this there is no use in starting.
const STRIDE_SHIFT_MIN: u32 = 24;
/// Most room for the magazines of a node.
const MAGAZINES_SHIFT_MAX: u32 = 35;

/// The reservation and its parts. All addresses are fixed once it is made.
pub struct Space {
    /// Where the payload of node 0 begins; a multiple of 2 MiB.
    pub base: usize,
    stride_shift: u32,
    magazines_shift: u32,
    map: *mut u8,
    advice: *const AtomicU8,
    spans: *mut Span,
    bits: *mut u64,
    magazines: usize,
    nodes: Nodes,
}

struct Cell {
    phase: AtomicU32,
    space: UnsafeCell<Space>,
}

// SAFETY: written by the one thread that moved the phase to BUSY, read once it is READY.
unsafe impl Sync for Cell {}

const UNTOUCHED: u32 = 0;
const BUSY: u32 = 1;
const READY: u32 = 2;
const FAILED: u32 = 3;

static SPACE: Cell = Cell {
    phase: AtomicU32::new(UNTOUCHED),
    space: UnsafeCell::new(Space {
        base: 0,
        stride_shift: 0,
        magazines_shift: 0,
        map: null_mut(),
        advice: null(),
        spans: null_mut(),
        bits: null_mut(),
        magazines: 0,
        nodes: Nodes::NONE,
    }),
};

/// The space, made at the first call; `None` when the kernel gives no address space.
#[inline]
pub fn get() -> Option<&'static Space> {
    if SPACE.phase.load(Ordering::Acquire) == READY {
        // SAFETY: READY is stored after the last write.
        return Some(unsafe { &*SPACE.space.get() });
    }
    start()
}

/// The space if it exists already.
pub fn existing() -> Option<&'static Space> {
    // SAFETY: READY is stored after the last write.
    (SPACE.phase.load(Ordering::Acquire) == READY).then(|| unsafe { &*SPACE.space.get() })
}

#[cold]
fn start() -> Option<&'static Space> {
    let turn = SPACE.phase.compare_exchange(UNTOUCHED, BUSY, Ordering::Acquire, Ordering::Acquire);
    match turn {
        Ok(_) => {
            // SAFETY: this thread alone moved the phase to BUSY: nobody else touches it.
            let space = unsafe { &mut *SPACE.space.get() };
            let made = space.make();
            SPACE.phase.store(if made { READY } else { FAILED }, Ordering::Release);
        }
        Err(_) => {
            while SPACE.phase.load(Ordering::Acquire) == BUSY {
                spin_loop();
            }
        }
    }
    existing()
}

impl Space {
    fn make(&mut self) -> bool {
        // They decide what is made.
        crate::config::read();
        self.nodes = nodes::find();
        // Pages are numbered over all regions, in 32 bits.
        let most = u32::BITS + PAGE_SHIFT - self.nodes.regions().next_power_of_two().ilog2();
        let mut shift = STRIDE_SHIFT_MAX.min(most);
        if let Some(limit) = kernel::address_space_limit() {
            // Half of what is allowed: the program, its stacks and files need the rest.
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

    /// Reserves everything for this stride and starts the nodes.
    fn reserve(&mut self, stride_shift: u32) -> bool {
        const HUGE: usize = 2 << 20;
        let count = self.nodes.regions();
        let pages = count << (stride_shift - PAGE_SHIFT);
        let magazines_shift = (stride_shift - 2).min(MAGAZINES_SHIFT_MAX);
        let map_bytes = pages + pages / HUGE_PAGES as usize + 1;
        let parts = [
            count << stride_shift,
            map_bytes.next_multiple_of(HUGE),
            (pages * size_of::<Span>()).next_multiple_of(HUGE),
            (pages * BITS_BYTES).next_multiple_of(HUGE),
            count << magazines_shift,
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
        self.map = starts[1] as *mut u8;
        self.advice = (starts[1] + pages) as *const AtomicU8;
        self.spans = starts[2] as *mut Span;
        self.bits = starts[3] as *mut u64;
        self.magazines = starts[4];
        self.stride_shift = stride_shift;
        self.magazines_shift = magazines_shift;
        // SAFETY: the range was just reserved. The tables are sparse.
        unsafe { kernel::ask_for_small(starts[1], start + bytes - starts[1]) };
        // The map is whole from the start, so that any pointer into the payload can be
        // looked up, also one that was never handed out.
        // SAFETY: the range was just reserved.
        let mapped = unsafe { kernel::commit(starts[1], map_bytes) }.is_ok();
        let started = mapped && (0..count).all(|node| self.start_node(node));
        if !started {
            // SAFETY: nothing of it has been handed out.
            unsafe { kernel::unreserve(start, bytes) };
        }
        started
    }

    fn start_node(&self, node: usize) -> bool {
        // SAFETY: within the reservation, not yet used by anybody.
        unsafe { self.advise_as_region(node, self.payload(node), self.stride()) };
        let start = self.magazines + (node << self.magazines_shift);
        // SAFETY: within the reservation, not yet used by anybody.
        unsafe {
            self.place(node, start, Node::FIRST_COMMIT);
            if kernel::commit(start, Node::FIRST_COMMIT).is_err() {
                return false;
            }
            (*(start as *mut Node)).start(self, node);
        }
        true
    }

    /// Gives a range the advice that holds for all of its region.
    ///
    /// # Safety
    /// The range lies in the region's payload.
    pub unsafe fn advise_as_region(&self, region: usize, start: usize, bytes: usize) {
        // Of blocks that threads of several nodes touch all would lie where the first of them is.
        if self.nodes.is_shared(region) || !crate::config::get().huge_pages {
            // SAFETY: by contract.
            unsafe { kernel::ask_for_small(start, bytes) };
        }
    }

    /// Asks that a range of a node's memory come from that node, where it makes a
    /// difference and the user has not said otherwise.
    ///
    /// # Safety
    /// The range lies in the reservation.
    pub unsafe fn place(&self, node: usize, start: usize, bytes: usize) {
        // Only a wish: memory is found elsewhere when it fails.
        let _ = match self.nodes.home(node) {
            Home::Anywhere => Ok(()),
            // SAFETY: by contract.
            Home::Node(id) => unsafe { kernel::prefer_node(start, bytes, id) },
            // SAFETY: by contract.
            Home::All(nodes) => unsafe { kernel::interleave(start, bytes, &nodes) },
        };
    }

    /// Nodes that memory is taken from.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// State of a node.
    ///
    /// `node` is below the number of nodes.
    #[inline]
    pub fn node(&self, node: usize) -> &'static Node {
        debug_assert!(node < self.nodes.regions());
        // SAFETY: started before the space was published, and never taken away.
        unsafe { &*((self.magazines + (node << self.magazines_shift)) as *const Node) }
    }

    /// All nodes.
    pub fn all_nodes(&self) -> impl Iterator<Item = &'static Node> {
        (0..self.nodes.regions()).map(|node| self.node(node))
    }

    /// Where a node's payload begins.
    #[inline]
    pub fn payload(&self, node: usize) -> usize {
        self.base + (node << self.stride_shift)
    }

    /// Bytes of a node's payload.
    #[inline]
    pub fn stride(&self) -> usize {
        1 << self.stride_shift
    }

    /// The node whose payload holds this address; `None` when it is not ours.
    #[inline]
    pub fn node_of(&self, address: usize) -> Option<usize> {
        let node = address.wrapping_sub(self.base) >> self.stride_shift;
        (node < self.nodes.regions()).then_some(node)
    }

    /// Page number of an address of the payload, over all nodes.
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

    /// Pages of a node.
    #[inline]
    pub fn pages_per_node(&self) -> u32 {
        1 << (self.stride_shift - PAGE_SHIFT)
    }

    /// The class map from a page on: a byte a page, the bin of its objects, 0 for other.
    #[inline]
    pub fn map(&self, page: u32) -> *mut u8 {
        // SAFETY: page numbers lie within the map, which is accessible from the start.
        unsafe { self.map.add(page as usize) }
    }

    /// What the kernel was told of the chunk that a page lies in: see `crate::advice`.
    #[inline]
    pub fn advice(&self, page: u32) -> &AtomicU8 {
        // SAFETY: page numbers and the one behind the last lie within the table, which is
        // accessible from the start; any byte is a valid one.
        unsafe { &*self.advice.add((page / HUGE_PAGES) as usize) }
    }

    /// The description of the span that starts at a page; accessible below the node's
    /// frontier.
    #[inline]
    pub fn span(&self, page: u32) -> *mut Span {
        // SAFETY: page numbers lie within the table.
        unsafe { self.spans.add(page as usize) }
    }

    /// The free bits of the span that starts at a page.
    #[inline]
    pub fn bits(&self, page: u32) -> *mut u64 {
        // SAFETY: page numbers lie within the table.
        unsafe { self.bits.add(page as usize * BITS_WORDS) }
    }

    /// Makes pages and their descriptions accessible.
    ///
    /// # Safety
    /// The pages are of this node and have not been accessible before; the caller holds the
    /// node's page lock.
    pub unsafe fn commit(&self, node: usize, first: u32, pages: u32) -> bool {
        const SYSTEM_PAGE: usize = 64 << 10;
        let ranges = [
            (self.address_of(first), pages as usize * PAGE),
            (self.span(first) as usize, pages as usize * size_of::<Span>()),
            (self.bits(first) as usize, pages as usize * BITS_BYTES),
        ];
        ranges.iter().all(|&(start, bytes)| {
            let end = (start + bytes).next_multiple_of(SYSTEM_PAGE);
            let start = start & !(SYSTEM_PAGE - 1);
            // SAFETY: within the reservation; table ends may be made accessible twice.
            unsafe {
                self.place(node, start, end - start);
                kernel::commit(start, end - start).is_ok()
            }
        })
    }

    /// Address of a slot of 1 KiB among all magazines.
    #[inline]
    pub fn slot(&self, index: u32) -> *mut Magazine {
        (self.magazines + index as usize * MAGAZINE_BYTES) as *mut Magazine
    }

    /// Number of a magazine; never 0, where the first node's state lies.
    #[inline]
    pub fn slot_index(&self, magazine: *const Magazine) -> u32 {
        ((magazine as usize - self.magazines) / MAGAZINE_BYTES) as u32
    }

    /// First slot of a node.
    #[inline]
    pub fn first_slot(&self, node: usize) -> u32 {
        ((node << self.magazines_shift) / MAGAZINE_BYTES) as u32
    }

    /// Slots of a node.
    #[inline]
    pub fn slots_per_node(&self) -> u32 {
        (1usize << self.magazines_shift).div_ceil(MAGAZINE_BYTES) as u32
    }

    /// The node whose slot this is.
    #[inline]
    pub fn node_of_slot(&self, index: u32) -> usize {
        (index as usize * MAGAZINE_BYTES) >> self.magazines_shift
    }
}

const _: () = assert!((MAX_REGIONS << MAGAZINES_SHIFT_MAX) / MAGAZINE_BYTES <= 1 << 32);

#[cfg(test)]
mod tests {
    extern crate std;

    use std::fs;
    use std::path::Path;

    use super::*;

    /// Whether the kernel was told to keep huge pages out of the mapping that holds an address
    /// (`VmFlags` of it, proc_pid_smaps(5)).
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
        let space = get().expect("address space");
        let page = space.first_page(0) + 1;
        assert!(stays_small(space.map(page) as usize));
        assert!(stays_small(space.span(page) as usize));
        assert!(stays_small(space.bits(page) as usize));
        assert!(stays_small(space.slot(space.first_slot(0)) as usize));
        assert!(!stays_small(space.payload(0)));
    }
}
