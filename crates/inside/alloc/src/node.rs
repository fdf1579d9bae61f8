//! A node's shared state: depots, inbox, page heap, and the memory for magazines and heaps.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::class::CLASSES;
use crate::heap::Heap;
use crate::hoard::Hoard;
use crate::lock::Lock;
use crate::magazine::Magazine;
use crate::pages::PageHeap;
use crate::space::{NODE_SLOTS, Space};
use crate::stack::{Depot, Stack};

/// Stacks of the magazines of a class: threads with different ones do not exchange what both have
/// enough of, and the objects' cache lines with it.
const SHELVES: usize = 4;

/// Where a thread puts its magazines of a class, and looks for them first.
#[derive(Clone, Copy, Debug)]
pub struct Shelf {
    /// The class.
    pub class: usize,
    /// Which of the class's.
    pub number: usize,
}

/// All shelves, a thread's own first.
fn from_own<T>(shelves: &[Aligned<T>; SHELVES], own: usize) -> impl Iterator<Item = &T> {
    let (before, from) = shelves.split_at(own);
    from.iter().chain(before).map(|shelf| &shelf.0)
}

/// The state of a node. Lies at the start of the node's magazines, in that node's memory;
/// all zeroes until [`Self::start`].
#[repr(C)]
pub struct Node {
    /// Dense number of this node.
    pub number: usize,
    /// Magazines by class and shelf.
    depots: [[Aligned<Depot>; SHELVES]; CLASSES],
    /// Objects of this node that threads of other nodes freed, of any class.
    pub inbox: Aligned<Depot>,
    /// Magazines without objects, by shelf.
    empties: [Aligned<Stack>; SHELVES],
    /// Runs of pages, and spans with free objects.
    pub pages: Lock<PageHeap>,
    /// First page that was never handed out: below it, spans are accessible. For those who
    /// do not hold the lock.
    pub reached: AtomicU32,
    slots: Lock<Slots>,
    /// When the next tick is due, in milliseconds.
    pub next_tick: AtomicU64,
    /// Depots that may hold idle magazines.
    pub idle: AtomicU32,
}

/// On a cache line of its own.
#[repr(C, align(64))]
pub struct Aligned<T>(pub T);

/// The slots of 1 KiB that magazines and heaps are made of.
#[repr(C)]
struct Slots {
    next: u32,
    committed: u32,
    end: u32,
    /// Heaps of threads that have ended.
    spare: *mut Heap,
    /// All heaps ever made on this node.
    all: *mut Heap,
    /// How many they are.
    heaps: usize,
}

// SAFETY: heaps are shared memory of the process; who may touch one is ruled by the lock.
unsafe impl Send for Slots {}

impl Node {
    /// Bytes of its slots that are accessible from the start.
    pub const FIRST_COMMIT: usize = 256 << 10;
    /// Bytes by which they grow.
    const GROWTH: usize = 1 << 20;

    /// Begins with nothing used.
    pub fn start(&mut self, space: &Space, number: usize) {
        self.number = number;
        self.pages.lock().start(space, number);
        let mut slots = self.slots.lock();
        let first = space.first_slot(number);
        slots.next = first + NODE_SLOTS as u32;
        slots.committed = first + (Self::FIRST_COMMIT / size_of::<Magazine>()) as u32;
        slots.end = first + space.slots_per_node();
    }

    /// A magazine without objects, from another shelf when there is none on this one; `None` when
    /// there is no memory.
    pub fn empty_magazine(&self, space: &Space, shelf: usize) -> Option<*mut Magazine> {
        let found = from_own(&self.empties, shelf).find_map(|empties| empties.pop(space));
        if let Some((magazine, ..)) = found {
            return Some(magazine);
        }
        self.slots.lock().take(space, self.number, 1).map(|slot| space.slot(slot))
    }

    /// Takes back a magazine without objects, on a shelf of its own node.
    ///
    /// # Safety
    /// The magazine is the caller's alone.
    pub unsafe fn recycle(space: &Space, shelf: usize, magazine: *mut Magazine) {
        let home = space.node_of_slot(space.slot_index(magazine));
        // SAFETY: by contract.
        unsafe { space.node(home).empties[shelf].0.push(space, magazine, 0) };
    }

    /// Bytes of its slots in use: its own state, heaps and magazines.
    pub fn slot_bytes(&self, space: &Space) -> usize {
        let used = self.slots.lock().next - space.first_slot(self.number);
        used as usize * size_of::<Magazine>()
    }

    /// Magazines without objects that nobody holds.
    pub fn empty_magazines(&self, space: &Space) -> usize {
        self.empties.iter().map(|empties| empties.0.depth(space) as usize).sum()
    }

    /// A heap for a thread: one left by a thread that ended, or a new one of zeroes.
    pub fn take_heap(&self, space: &Space) -> Option<*mut Heap> {
        let mut slots = self.slots.lock();
        let spare = slots.spare;
        if !spare.is_null() {
            // SAFETY: heaps on the list are nobody's, and the lock is held.
            slots.spare = unsafe { (*spare).next_spare };
            return Some(spare);
        }
        let bytes = size_of::<Heap>() + size_of::<Hoard>();
        let count = bytes.div_ceil(size_of::<Magazine>()) as u32;
        let heap: *mut Heap = space.slot(slots.take(space, self.number, count)?).cast();
        // SAFETY: fresh memory of zeroes, large enough for both and aligned to a slot.
        unsafe {
            (*heap).next = slots.all;
            (*heap).hoard = heap.add(1).cast();
            (*heap).shelf = slots.heaps % SHELVES;
        }
        slots.all = heap;
        slots.heaps += 1;
        Some(heap)
    }

    /// Takes back the heap of a thread that ended.
    ///
    /// # Safety
    /// The heap is this node's and nobody uses it any more.
    pub unsafe fn return_heap(&self, heap: *mut Heap) {
        let mut slots = self.slots.lock();
        // SAFETY: by contract.
        unsafe { (*heap).next_spare = slots.spare };
        slots.spare = heap;
    }

    /// Gives it a magazine with so many objects for a shelf of the class; how many there are now.
    ///
    /// # Safety
    /// The magazine is the caller's alone and holds objects of this class and node.
    #[inline]
    pub unsafe fn give(
        &self,
        space: &Space,
        shelf: Shelf,
        magazine: *mut Magazine,
        objects: usize,
    ) -> u32 {
        // SAFETY: by contract.
        unsafe { self.depots[shelf.class][shelf.number].0.give(space, magazine, objects) }
    }

    /// Takes a magazine of a class and its number of objects, from another shelf when there is none
    /// on this one.
    #[inline]
    pub fn take(&self, space: &Space, shelf: Shelf) -> Option<(*mut Magazine, usize)> {
        from_own(&self.depots[shelf.class], shelf.number).find_map(|depot| depot.take(space))
    }

    /// Magazines on a shelf of a class, at this moment.
    #[inline]
    pub fn depth(&self, space: &Space, shelf: Shelf) -> u32 {
        self.depots[shelf.class][shelf.number].0.depth(space)
    }

    /// Objects of a class in its magazines, at this moment.
    pub fn objects(&self, space: &Space, class: usize) -> usize {
        self.depots[class].iter().map(|depot| depot.0.objects(space)).sum()
    }

    /// Its magazines, class by class, and those that came home: no thread of the node may ever
    /// ask for them.
    pub fn depots(&self) -> impl Iterator<Item = &Depot> {
        self.depots[1..].iter().flatten().chain([&self.inbox]).map(|depot| &depot.0)
    }

    /// Its magazines and those that its threads keep.
    pub fn all_depots(&self) -> impl Iterator<Item = &Depot> {
        let kept = self.heaps().flat_map(|heap| {
            // SAFETY: heaps are never taken away.
            unsafe { Heap::hoard_of(heap) }.depots()
        });
        self.depots().chain(kept)
    }

    /// The heaps made on this node, newest first. A new one may come at any time, none goes.
    pub fn heaps(&self) -> impl Iterator<Item = *mut Heap> + use<> {
        let first = self.slots.lock().all;
        core::iter::successors((!first.is_null()).then_some(first), |&heap| {
            // SAFETY: heaps are never taken away, and their links do not change.
            let next = unsafe { (*heap).next };
            (!next.is_null()).then_some(next)
        })
    }

    /// Whether a tick is due; then the caller, alone, does it.
    #[inline]
    pub fn tick_due(&self, now_ms: u64, every_ms: u64) -> bool {
        let due = self.next_tick.load(Ordering::Relaxed);
        now_ms >= due
            && self
                .next_tick
                .compare_exchange(due, now_ms + every_ms, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Takes its locks, for a fork.
    pub fn lock_all(&self) {
        self.pages.acquire();
        self.slots.acquire();
    }

    /// Releases its locks after a fork, in parent and child.
    pub fn unlock_all(&self) {
        self.slots.release();
        self.pages.release();
    }
}

impl Slots {
    fn take(&mut self, space: &Space, node: usize, count: u32) -> Option<u32> {
        let slot = self.next;
        let end = slot + count;
        if end > self.end {
            return None;
        }
        if end > self.committed {
            let start = space.slot(self.committed) as usize;
            // SAFETY: slots not accessible before, within the node's share.
            unsafe {
                space.place(node, start, Node::GROWTH);
                crate::kernel::commit(start, Node::GROWTH).ok()?;
            }
            self.committed += (Node::GROWTH / size_of::<Magazine>()) as u32;
        }
        self.next = end;
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space;

    #[test]
    fn a_thread_finds_its_own_magazines_first_and_then_others() {
        let space = space::get().expect("address space");
        let node = space.node(0);
        let [first, second] = [1, 2].map(|number| Shelf { class: CLASSES - 1, number });
        let [one, other] = [1, 2].map(|shelf| node.empty_magazine(space, shelf).expect("memory"));
        // Without objects, in case that reclamation comes by.
        // SAFETY: both are the test's alone.
        unsafe {
            node.give(space, first, one, 0);
            node.give(space, second, other, 0);
        }
        assert_eq!(node.depth(space, second), 1);
        assert_eq!(node.take(space, first), Some((one, 0)));
        assert_eq!(node.take(space, first), Some((other, 0)));
        assert_eq!(node.take(space, first), None);
        // SAFETY: both were taken.
        unsafe { [one, other].into_iter().for_each(|magazine| Node::recycle(space, 1, magazine)) };
    }
}
