//! A memory allocator that knows nodes: every object has a home node, and returns there.
//!
//! Source: numalloc (Yang et al. 2023). Objects are allocated on the node of the thread
//! that asks, freed objects go back to the node they are from, and the threads of a node
//! share its huge pages. On a machine with one node all of that vanishes, and what remains
//! is a fast general-purpose allocator.
//!
//! ```text
//!  thread: heap            node: depot, inbox         node: page heap        kernel
//!  | magazine | reserve |--whole magazines--| stack |--spans of 64 KiB--| runs |--2 MiB--|
//!  | outbound |---------- to other nodes' inboxes
//! ```
//!
//! | file | what |
//! |---|---|
//! | `api` | the fast paths |
//! | `class` | sizes of small objects |
//! | `heap`, `hoard`, `tls`, `threads`, `without_heap` | what a thread holds, and how it comes and goes |
//! | `magazine`, `stack` | free objects, many at a time, and how they move between threads |
//! | `node`, `nodes`, `space` | what a node holds, which nodes there are, where they lie |
//! | `cpus` | on which node a thread runs |
//! | `small`, `large`, `pages`, `span` | runs of pages and what they are used for |
//! | `relocate` | the way of a large block that grows |
//! | `huge`, `density`, `advice` | which memory gets huge pages |
//! | `mappings` | how many mappings the allocator adds to the process |
//! | `reclaim`, `background_thread` | the way of free memory back to the kernel |
//! | `usage`, `statistics` | what the memory is used for, told at the end and on a signal |
//! | `profile` | which calls hold how much, sampled |
//! | `kernel`, `process`, `lock`, `config`, `random` | system calls, a lock, settings, and such |
//! | `bare_thread`, `rights` | threads that the C library does not know, and what they may |
//! | `report`, `output`, `file` | messages, text, files |
//! | `harden` | the mode that checks everything |
//!
//! As the global allocator of a Rust program:
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: numapilot_alloc::Numapilot = numapilot_alloc::Numapilot;
//!
//! let squares: Vec<u64> = (0..1000).map(|i| i * i).collect();
//! assert_eq!(squares[999], 998_001);
//! ```
#![no_std]

mod advice;
pub mod api;
mod background_thread;
mod bare_thread;
mod class;
pub mod config;
mod cpus;
mod density;
mod file;
mod harden;
mod heap;
mod hoard;
mod holes;
mod huge;
mod kernel;
mod large;
mod lock;
mod magazine;
mod mappings;
mod node;
mod nodes;
mod output;
mod pages;
mod process;
pub mod profile;
mod random;
mod reclaim;
mod relocate;
pub mod report;
mod rights;
mod small;
mod space;
mod span;
mod stack;
mod statistics;
mod sync;
mod threads;
mod tls;
pub mod usage;
mod without_heap;

use core::alloc::{GlobalAlloc, Layout};

use crate::api::Errno;
pub use crate::kernel::page_size;

/// The allocator as a Rust global allocator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numapilot;

// SAFETY: `api` hands out memory of the size and alignment asked for, which is nobody
// else's until it is released.
unsafe impl GlobalAlloc for Numapilot {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        api::allocate_aligned::<Errno>(layout.size(), layout.align())
    }

    #[inline]
    unsafe fn dealloc(&self, object: *mut u8, _: Layout) {
        // SAFETY: by contract of the trait.
        unsafe { api::release(object) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= class::GRAIN {
            return api::allocate_zeroed::<Errno>(layout.size());
        }
        let object = api::allocate_aligned::<Errno>(layout.size(), layout.align());
        if !object.is_null() {
            // SAFETY: the object has that many bytes.
            unsafe { object.write_bytes(0, layout.size()) };
        }
        object
    }

    #[inline]
    unsafe fn realloc(&self, object: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: by contract of the trait.
        unsafe { api::reallocate::<Errno>(object, size, layout.align()) }
    }
}

/// Gives all memory that is not in use back to the kernel; whether there was any.
pub fn trim() -> bool {
    threads::with_heap(|space, heap| heap.flush(space));
    space::existing().is_some_and(|space| {
        space.all_nodes().filter(|node| reclaim::trim(space, node)).count() > 0
    })
}
