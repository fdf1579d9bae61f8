//! Threads that allocate, hand blocks to one another, and end, through the Rust interface.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what a test is for")]

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::thread;

use numapilot_alloc::Numapilot;

/// The beginning of a block; the rest repeats the seed.
#[repr(C)]
struct Header {
    size: usize,
    seed: u64,
}

const HEADER: usize = size_of::<Header>();

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(2_685_821_657_736_338_717)
    }

    /// Mostly small, sometimes large.
    fn size(&mut self) -> usize {
        let r = self.next();
        let bits = match r % 64 {
            0 => 18,
            1..9 => 13,
            _ => 9,
        };
        HEADER + (r >> 8) as usize % (1 << (1 + (r >> 40) % bits))
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 16).unwrap()
}

fn obtain(random: &mut Random) -> *mut u8 {
    let (size, seed) = (random.size(), random.next());
    // SAFETY: the size is not zero; the block has this size, and is used only here.
    unsafe {
        let block = Numapilot.alloc(layout(size));
        assert!(!block.is_null());
        block.cast::<Header>().write(Header { size, seed });
        block.add(HEADER).write_bytes(seed as u8, size - HEADER);
        block
    }
}

fn release(block: *mut u8) {
    // SAFETY: the block came from `obtain`, and only the caller has it.
    unsafe {
        let Header { size, seed } = block.cast::<Header>().read();
        let rest = std::slice::from_raw_parts(block.add(HEADER), size - HEADER);
        assert!(rest.iter().all(|&byte| byte == seed as u8), "{block:p}, {size} bytes");
        Numapilot.dealloc(block, layout(size));
    }
}

fn work(seed: u64, slots: &[AtomicPtr<u8>], calls: usize) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for _ in 0..calls {
        let slot = &slots[random.next() as usize % slots.len()];
        let found = slot.swap(obtain(&mut random), Ordering::AcqRel);
        if !found.is_null() {
            release(found);
        }
    }
}

#[test]
fn blocks_go_from_thread_to_thread() {
    let slots: Vec<_> = (0..2000).map(|_| AtomicPtr::new(null_mut())).collect();
    for round in 0..5 {
        thread::scope(|scope| {
            let slots = &slots;
            let workers: Vec<_> = (0..8)
                .map(|thread| scope.spawn(move || work(round * 100 + thread + 1, slots, 10_000)))
                .collect();
            // Joined here, because sanitizers do not see the end of a scope.
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
        numapilot_alloc::trim();
    }
    for slot in slots {
        let left = slot.into_inner();
        if !left.is_null() {
            release(left);
        }
    }
}

/// One side allocates and the other frees, so everything goes through the depots.
#[test]
fn what_one_thread_allocates_another_frees() {
    let (sender, receiver) = std::sync::mpsc::sync_channel::<Vec<usize>>(4);
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut random = Random(7);
            for _ in 0..300 {
                sender.send((0..200).map(|_| obtain(&mut random) as usize).collect()).unwrap();
            }
        });
        scope.spawn(move || {
            receiver.into_iter().flatten().for_each(|block| release(block as *mut u8));
        });
    });
}
