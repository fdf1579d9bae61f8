//! Allocation and release for threads without a heap: straight from and to spans and pages, under
//! the node's lock.
//!
//! A thread has none when it is at its end (`crate::threads`), where the C library and the program
//! still free what they kept for it; and when there was no memory for one. Neither is sampled for
//! the heap profile.

use core::ptr::null_mut;

use crate::config;
use crate::large::{self, Block};
use crate::space::{self, Space};
use crate::{harden, reclaim, small};

/// An object of a class; null when there is no memory.
pub fn object(class: usize) -> *mut u8 {
    let Some(space) = space::get() else { return null_mut() };
    let node = space.nodes().current();
    match config::get().harden {
        true => harden::allocate(space, node, class),
        false => small::take_one(space, node, class),
    }
}

/// A block of this size and alignment; null when there is no memory.
pub fn block(size: usize, align: usize) -> Block {
    let Some(space) = space::get() else { return Block::NOTHING };
    let region = large::region(space, size, space.nodes().current());
    large::allocate(space, region, size, align)
}

/// Takes back an object, or a block, whose bin is 0, of this node.
pub fn release(space: &Space, home: usize, bin: usize, object: *mut u8) {
    match bin {
        0 => large::free(space, object),
        _ => reclaim::return_objects(space, home, &[object]),
    }
}
