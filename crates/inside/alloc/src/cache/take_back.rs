//! Free where the fast path has no room: the active magazine of the class is full, or the object
//! has another owner.

use crate::cache::bins::refuse_newest;
use crate::cache::hand_over;
use crate::cache::thread_cache::ThreadCache;
use crate::central::magazine::Magazine;
use crate::central::node_state::NodeState;
use crate::config;
use crate::layout::address_space::AddressSpace;
use crate::layout::class_map::Entry;
use crate::os::decay_request;
use crate::slab::give_back;

impl ThreadCache {
    /// Takes back an object of this node.
    ///
    /// # Safety
    /// The object is no longer used, has this class and owner, and belongs to this cache's node.
    pub unsafe fn take_back(&self, space: &AddressSpace, entry: Entry, object: *mut u8) {
        let class = entry.class();
        if config::get().is_hardened() {
            give_back::return_objects(space, self.node(), &[object]);
        } else if self.returns(entry) {
            self.collect_foreign(space, entry, object);
        } else {
            // SAFETY: the thread's own words.
            unsafe { refuse_newest(self.bins.classes[class].top(), object) };
            self.put(space, class, object);
        }
    }

    /// Takes back an object of this node, even if there is no room for it.
    pub fn put(&self, space: &AddressSpace, class: usize, object: *mut u8) {
        if self.push(class, object) {
            return;
        }
        self.make_room(space, class);
        if !self.push(class, object) {
            // There is no memory for a magazine, so the object goes straight to its span.
            give_back::return_objects(space, self.node(), &[object]);
        }
    }

    /// Replaces the active magazine, which is full or missing, by an empty one.
    fn make_room(&self, space: &AddressSpace, class: usize) {
        let Some(empty) = self.empty(space, class) else { return };
        if let Some(active) = self.active(class) {
            let objects = Magazine::objects(active, self.bins.classes[class].top());
            let (reserve, held) = self.cold[class].take_reserve();
            self.cold[class].set_reserve(active, objects);
            if !reserve.is_null() {
                // SAFETY: the cache no longer refers to it.
                unsafe { self.put_by(space, class, reserve, held) };
            }
        }
        self.activate(class, empty, 0);
    }

    /// Keeps a magazine with this many objects, or gives it to the node.
    ///
    /// # Safety
    /// The magazine belongs to the caller alone, with objects of this node and class.
    unsafe fn put_by(
        &self,
        space: &AddressSpace,
        class: usize,
        magazine: *mut Magazine,
        objects: usize,
    ) {
        let overflow = self.overflow();
        // SAFETY: by contract.
        unsafe {
            if overflow.has_room(space, class) {
                overflow.keep(space, class, magazine, objects);
            } else {
                decay_request::raise();
                let shard = self.shard_of(class);
                hand_over::to_depot(
                    space,
                    NodeState::of(space, self.node()),
                    shard,
                    magazine,
                    objects,
                );
            }
        }
    }
}
