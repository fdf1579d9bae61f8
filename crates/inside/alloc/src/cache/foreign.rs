//! Objects of the thread's node that belong to another owner, which the thread collects and sends
//! to it, a magazine at a time.
//!
//! Several small objects share a cache line. If a thread kept those that others allocated, it would
//! write to lines that the others write to (false sharing), until the objects have moved on. So they
//! return to the thread that took their span (message passing, snmalloc). The freeing thread does
//! not touch them, and they stay in the caches where they were used.
//!
//! If an owner does not fetch its objects, perhaps because it allocates nothing, other threads take
//! them from its inbox before they take new memory.

use core::ptr::null_mut;

use crate::cache::bins::refuse_newest;
use crate::cache::hand_over;
use crate::cache::thread_cache::ThreadCache;
use crate::central::magazine::Magazine;
use crate::central::node_state::NodeState;
use crate::layout::address_space::AddressSpace;
use crate::layout::class_map::{Entry, Owner};
use crate::layout::size_class::{self, MAGAZINE_MAX};

/// Bytes of objects after which they are sent, because those that a thread has collected are of use
/// to nobody else.
const ROOM: usize = 8 << 10;

impl ThreadCache {
    /// Whether an object of another owner returns to it.
    pub(super) fn returns(&self, entry: Entry) -> bool {
        ![Owner::NONE, self.owner].contains(&entry.owner())
    }

    /// Collects an object of another owner where there is room, which needs no slow path.
    ///
    /// # Safety
    /// The object is no longer used, has that owner, and belongs to this cache's node.
    #[inline(always)]
    pub unsafe fn collect_fast(&self, owner: Owner, object: *mut u8) -> bool {
        let bin = &self.foreign[owner.number()];
        let top = bin.top();
        if top == bin.end.get() {
            return false;
        }
        // SAFETY: the magazine has room, so it exists.
        unsafe {
            refuse_newest(top, object);
            bin.push_at(top, object);
        }
        true
    }

    /// Collects an object, which returns to its owner.
    pub(super) fn collect_foreign(&self, space: &AddressSpace, entry: Entry, object: *mut u8) {
        let owner = entry.owner();
        let bin = &self.foreign[owner.number()];
        if !bin.top().is_null() {
            // SAFETY: the thread's own magazine.
            unsafe { refuse_newest(bin.top(), object) };
        }
        if !bin.push(object) {
            self.send_to_owner(space, owner);
            let Some(empty) = self.empty_for_any(space) else {
                return self.put(space, entry.class(), object);
            };
            Magazine::fetch(empty);
            // The others are probably about as large.
            let room = (ROOM / size_class::TABLE[entry.class()].size as usize).min(MAGAZINE_MAX);
            bin.set(Magazine::word(empty, 1), Magazine::word(empty, 1 + room));
            bin.push(object);
        }
    }

    /// Sends all collected objects to their owners.
    pub fn send_foreign(&self, space: &AddressSpace) {
        let owners = NodeState::of(space, self.node()).owners();
        owners.for_each(|owner| self.send_to_owner(space, owner));
    }

    /// Sends all collected objects to their owners, or to their spans, when the thread ends or
    /// moves.
    pub(super) fn return_foreign(&self, space: &AddressSpace) {
        let node = NodeState::of(space, self.node());
        for owner in node.owners() {
            if let Some((magazine, objects)) = self.take_collected(owner) {
                // SAFETY: the magazine was taken and is ours.
                unsafe { hand_over::send_home(space, node, owner, magazine, objects) };
            }
        }
    }

    /// Sends the objects that were collected for an owner, or keeps them if the owner does not fetch
    /// its objects.
    fn send_to_owner(&self, space: &AddressSpace, owner: Owner) {
        let Some((magazine, objects)) = self.take_collected(owner) else { return };
        let node = NodeState::of(space, self.node());
        // SAFETY: the magazine was taken and is ours.
        unsafe {
            if !hand_over::to_owner(space, node, owner, magazine, objects) {
                self.keep_objects(space, magazine, objects);
            }
        }
    }

    /// Takes the magazine for an owner, and its number of objects.
    fn take_collected(&self, owner: Owner) -> Option<(*mut Magazine, usize)> {
        let bin = &self.foreign[owner.number()];
        let collected = Magazine::collected(bin.top())?;
        bin.set(null_mut(), null_mut());
        Some(collected)
    }

    /// Visits the objects that the cache has collected for other owners. As [`Self::ready`].
    pub fn collected(&self, mut look: impl FnMut(*mut u8)) {
        for bin in &self.foreign {
            Magazine::visit(bin.top(), &mut look);
        }
    }
}
