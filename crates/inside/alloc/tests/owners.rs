//! Small objects that other threads free return to the thread that allocated them.
//!
//! One test calls both cases in turn. At the same time, or in the other order, the objects of one
//! case would change what the other sees: what waits for an owner returns to its spans when the heap
//! grows, and others take it when there is much of it.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what a test is for")]

use std::alloc::{GlobalAlloc, Layout};
use std::collections::HashSet;
use std::thread;

use numapilot_alloc::Numapilot;

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 16).unwrap()
}

/// The addresses of new objects of this size, which are not written.
fn addresses(count: usize, size: usize) -> Vec<usize> {
    // SAFETY: the size is not zero.
    (0..count).map(|_| unsafe { Numapilot.alloc(layout(size)) } as usize).collect()
}

fn free_all(addresses: &[usize], size: usize) {
    for &address in addresses {
        // SAFETY: the object came from `addresses`, and only the caller has it.
        unsafe { Numapilot.dealloc(address as *mut u8, layout(size)) };
    }
}

fn run_to_the_end<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join().unwrap())
}

#[test]
fn objects_that_other_threads_freed_return_or_are_used_by_others() {
    small_objects_return_to_the_thread_that_allocated_them();
    objects_of_a_thread_that_allocates_no_more_are_used_by_others();
}

/// If the other thread kept them, both would write to the same cache lines.
fn small_objects_return_to_the_thread_that_allocated_them() {
    // What four magazines hold: others take from an inbox that has more.
    const COUNT: usize = 4 * 127;
    const SIZE: usize = 16;
    let mine = addresses(COUNT, SIZE);
    let lines: HashSet<usize> = mine.iter().map(|address| address / 64).collect();
    let others = run_to_the_end(|| {
        free_all(&mine, SIZE);
        let others = addresses(COUNT, SIZE);
        free_all(&others, SIZE);
        others
    });
    let shared = others.iter().filter(|&address| lines.contains(&(address / 64))).count();
    assert_eq!(shared, 0, "objects of {COUNT} that share a line with another thread's");
    let again = addresses(COUNT, SIZE);
    let returned = again.iter().filter(|&address| mine.contains(address)).count();
    assert!(returned > COUNT * 3 / 4, "{returned} of {COUNT}");
    free_all(&again, SIZE);
}

/// A thread that loads data and then only waits does not make those that replace it take new memory.
fn objects_of_a_thread_that_allocates_no_more_are_used_by_others() {
    const COUNT: usize = 100_000;
    const SIZE: usize = 48;
    let mine = addresses(COUNT, SIZE);
    let known: HashSet<usize> = mine.iter().copied().collect();
    let others = run_to_the_end(|| {
        free_all(&mine, SIZE);
        addresses(COUNT, SIZE)
    });
    let new = others.iter().filter(|address| !known.contains(address)).count();
    assert!(new < COUNT / 10, "{new} of {COUNT} objects are in new memory");
    free_all(&others, SIZE);
}
