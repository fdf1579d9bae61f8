//! A memory allocator that knows nodes: every object has a home node, and returns there.
//!
//! Source: numalloc (Yang et al. 2023). Objects are allocated on the node of the thread
//! that asks, freed objects go back to the node they are from, and the threads of a node
//! share its huge pages. On a machine with one node all of that vanishes, and what remains
//! is a fast general-purpose allocator.
//!
//! ```text
//!  thread: cache           node: depot, inbox         node: page heap        kernel
//!  | magazine | reserve |--whole magazines--| stack |--spans of 64 KiB--| runs |--2 MiB--|
//!  | outbound |---------- to other nodes' inboxes
//! ```
//!
//! The modules are layers, from the bottom up; each uses only what stands above it in this table:
//!
//! | layer | what |
//! |---|---|
//! | `os` | system calls, a lock, CPUs, random numbers, messages, threads that the C library does not know |
//! | [`config`], `sampling` | settings; which allocations the heap profile samples |
//! | `layout` | size classes, runs of pages, nodes, and the address space that they lie in |
//! | `page_heap` | runs of pages of one region, huge pages, how many mappings they take |
//! | `large` | large blocks |
//! | `central` | what the threads of a node share: magazines, depots |
//! | `slab` | spans of small objects |
//! | `cache` | what a thread holds |
//! | `global` | the one address space of the process |
//! | `decay` | the way of idle memory back to the kernel |
//! | `threads` | how threads come, move and end |
//! | [`usage`], [`profile`], `statistics` (`telemetry`) | what memory is used for, and which calls hold it |
//! | `lifecycle` | the library is loaded, the process forks, the program ends |
//! | [`api`] | allocation and release: the fast paths |
//!
//! It helps programs with threads on machines with several nodes. It does not help a program that
//! allocates seldom, or whose large blocks are used by all nodes. It needs Linux on x86-64 or
//! aarch64, and no C compiler.
//!
//! The features `statistics`, `profile` and `harden`, on by default, decide what the environment
//! can request (`NUMAPILOT_ALLOC_STATS`, `NUMAPILOT_ALLOC_PROFILE`, `NUMAPILOT_ALLOC_HARDEN`). They
//! cost no time unless requested.
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

pub mod api;
mod cache;
mod central;
pub mod config;
mod decay;
mod global;
mod large;
mod layout;
mod lifecycle;
mod os;
mod page_heap;
mod sampling;
mod slab;
mod sync;
mod telemetry;
mod threads;

use core::alloc::{GlobalAlloc, Layout};

use crate::api::Errno;
use crate::cache::registry::NodeCaches;
use crate::layout::size_class::QUANTUM;
pub use crate::os::kernel::page_size;
pub use crate::os::report;
pub use crate::telemetry::{profile, usage};

/// The allocator as a Rust global allocator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numapilot;

// SAFETY: `api` returns memory of the requested size and alignment, which is used by no other
// caller until it is released.
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
        if layout.align() <= QUANTUM {
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

/// Returns all memory that is not in use to the kernel; returns whether there was any.
pub fn trim() -> bool {
    threads::with_cache(|space, cache| cache.flush(space));
    global::existing().is_some_and(|space| {
        NodeCaches::all(space).filter(|node| decay::trim(space, node)).count() > 0
    })
}
