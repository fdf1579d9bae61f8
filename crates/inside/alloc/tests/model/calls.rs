//! Calls of the allocator, and a model that checks each result: blocks are aligned, do not overlap,
//! and keep their contents. Shared with the fuzz target.

use std::alloc::{GlobalAlloc, Layout};
use std::collections::BTreeMap;

use numapilot_alloc::Numapilot;

/// One call. Blocks are named by any number, taken modulo the number of blocks.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    /// Allocate this many bytes.
    Allocate(usize),
    /// The same, zeroed.
    AllocateZeroed(usize),
    /// At a multiple of the second number, a power of two.
    AllocateAligned(usize, usize),
    /// Change the size of a block.
    Resize(usize, usize),
    /// Release a block.
    Release(usize),
    /// Return free memory.
    Trim,
}

impl Call {
    /// A call takes five bytes: its kind, and a number.
    pub fn from_bytes(bytes: &[u8]) -> impl Iterator<Item = Self> {
        bytes.chunks_exact(5).map(|chunk| {
            let number = u32::from_le_bytes([chunk[1], chunk[2], chunk[3], chunk[4]]) as usize;
            // The top five bits determine how many of the other bits count, so that small sizes are
            // frequent.
            let size = (number & 0x7ff_ffff) & ((1 << ((number >> 27) % 20)) - 1);
            match chunk[0] % 16 {
                0..=4 => Self::Allocate(size),
                5 | 6 => Self::AllocateZeroed(size),
                7 => Self::AllocateAligned(size, 1 << (chunk[0] / 16)),
                8..=10 => Self::Resize(usize::from(chunk[0] / 16) * 13, size),
                11..=14 => Self::Release(number),
                _ => Self::Trim,
            }
        })
    }
}

struct Block {
    layout: Layout,
    seed: u8,
}

/// The live blocks by address.
#[derive(Default)]
pub struct Heap {
    blocks: BTreeMap<usize, Block>,
    seed: u8,
}

impl Heap {
    /// Makes a call and checks its result.
    pub fn apply(&mut self, call: Call) {
        match call {
            Call::Allocate(size) => self.allocate(layout(size, 1), false),
            Call::AllocateZeroed(size) => self.allocate(layout(size, 1), true),
            Call::AllocateAligned(size, align) => self.allocate(layout(size, align), size % 2 == 0),
            Call::Resize(which, size) => self.resize(which, size.max(1)),
            Call::Release(which) => self.release(which),
            Call::Trim => {
                numapilot_alloc::trim();
            }
        }
    }

    fn allocate(&mut self, layout: Layout, zeroed: bool) {
        // SAFETY: the layout is not empty.
        let start = unsafe {
            if zeroed { Numapilot.alloc_zeroed(layout) } else { Numapilot.alloc(layout) }
        };
        assert!(!start.is_null(), "{layout:?}");
        if zeroed {
            // SAFETY: just allocated with this size, and written to by the allocator.
            let bytes = unsafe { std::slice::from_raw_parts(start, layout.size()) };
            assert!(bytes.iter().all(|&byte| byte == 0), "{layout:?}");
        }
        self.insert(start, layout);
    }

    fn resize(&mut self, which: usize, size: usize) {
        let Some((start, block)) = self.remove(which) else { return };
        let new = layout(size, block.layout.align());
        // SAFETY: the block is live and of this layout.
        let moved = unsafe { Numapilot.realloc(start as *mut u8, block.layout, size) };
        assert!(!moved.is_null(), "{new:?}");
        check(moved, block.layout.size().min(size), block.seed);
        self.insert(moved, new);
    }

    fn release(&mut self, which: usize) {
        let Some((start, block)) = self.remove(which) else { return };
        check(start as *mut u8, block.layout.size(), block.seed);
        // SAFETY: the block was live and is no longer in the model.
        unsafe { Numapilot.dealloc(start as *mut u8, block.layout) };
    }

    fn remove(&mut self, which: usize) -> Option<(usize, Block)> {
        let which = which.checked_rem(self.blocks.len())?;
        let start = *self.blocks.keys().nth(which)?;
        self.blocks.remove_entry(&start)
    }

    fn insert(&mut self, start: *mut u8, layout: Layout) {
        let address = start as usize;
        assert_eq!(address % layout.align().max(16), 0, "{layout:?}");
        let before = self.blocks.range(..=address).next_back();
        assert!(before.is_none_or(|(&other, block)| other + block.layout.size() <= address));
        let after = self.blocks.range(address..).next();
        assert!(after.is_none_or(|(&other, _)| address + layout.size() <= other));
        self.seed = self.seed.wrapping_add(1);
        // SAFETY: the block is live and used only here.
        unsafe { start.write_bytes(self.seed, layout.size()) };
        self.blocks.insert(address, Block { layout, seed: self.seed });
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        while !self.blocks.is_empty() && !std::thread::panicking() {
            self.release(0);
        }
    }
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size.max(1), align).expect("a small size and a power of two")
}

fn check(start: *mut u8, size: usize, seed: u8) {
    // SAFETY: the block is live and was filled by `insert`.
    let bytes = unsafe { std::slice::from_raw_parts(start, size) };
    assert!(bytes.iter().all(|&byte| byte == seed), "{start:p}, {size} bytes");
}
