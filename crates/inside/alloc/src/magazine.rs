//! Magazines: arrays of pointers to free objects, and stacks of them.
//!
//! ```text
//!  word    0       1        2        ...     127
//!        | NULL  | object | object | ...    |      |   top -> next free word
//! ```
//!
//! A thread pops and pushes objects at `top`; the NULL in front ends the popping without
//! a comparison. Objects themselves are not touched, so that memory never used stays
//! untouched, and a program that writes past an object reaches no pointer of ours.
//!
//! Whole magazines move between threads (numalloc section 3.2 moves sub-lists for the same
//! reason): one compare-and-swap for up to 127 objects. While a magazine is on a stack, its
//! word 0 links to the next one. Magazines are named by number, which leaves half of the
//! stack's word for a tag against reuse between a read and the swap.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::class::MAGAZINE_MAX;
use crate::space::Space;

/// Words of a magazine.
const WORDS: usize = MAGAZINE_MAX + 1;

/// 1 KiB, at a multiple of 1 KiB.
#[repr(C, align(1024))]
pub struct Magazine {
    words: [AtomicU64; WORDS],
}

/// What word 0 says while a magazine is on a stack.
#[derive(Clone, Copy)]
struct Link {
    /// Number of the magazine below; 0 at the end.
    below: u32,
    /// Objects in this one.
    objects: u32,
    /// Magazines on the stack up to and with this one, as far as the field goes.
    depth: u32,
}

impl Link {
    const DEPTH_MAX: u32 = (1 << 24) - 1;

    fn encode(self) -> u64 {
        u64::from(self.below) | u64::from(self.objects) << 32 | u64::from(self.depth) << 40
    }

    fn decode(word: u64) -> Self {
        Self { below: word as u32, objects: (word >> 32) as u32 & 0xff, depth: (word >> 40) as u32 }
    }
}

impl Magazine {
    /// The magazine in which a bin's pointer lies, which is past word 0 and at most one past
    /// the last.
    #[inline]
    pub fn of(pointer: *mut *mut u8) -> *mut Self {
        ((pointer as usize - 8) & !(size_of::<Self>() - 1)) as *mut Self
    }

    /// Address of a word.
    #[inline]
    pub fn word(this: *mut Self, index: usize) -> *mut *mut u8 {
        this.cast::<*mut u8>().wrapping_add(index)
    }

    /// The object in a word, which another thread may be changing.
    pub fn glance(this: *mut Self, index: usize) -> *mut u8 {
        debug_assert!(index < WORDS);
        // SAFETY: magazines are never taken away.
        unsafe { &(*this).words[index] }.load(Ordering::Relaxed) as *mut u8
    }

    /// Links a magazine without objects to another one.
    ///
    /// # Safety
    /// The magazine is the caller's alone.
    pub unsafe fn chain(this: *mut Self, below: *mut Self) {
        // SAFETY: the caller's; atomic, for others may look at it: see `link`.
        unsafe { &(*this).words[0] }.store(below as u64, Ordering::Relaxed);
    }

    /// Undoes that; what it was linked to.
    ///
    /// # Safety
    /// As [`Self::chain`].
    pub unsafe fn unchain(this: *mut Self) -> *mut Self {
        // SAFETY: as above.
        let first = unsafe { &(*this).words[0] };
        let below = first.load(Ordering::Relaxed) as *mut Self;
        first.store(0, Ordering::Relaxed);
        below
    }

    /// Objects below `top`.
    #[inline]
    pub fn objects(this: *mut Self, top: *mut *mut u8) -> usize {
        (top as usize - this as usize) / size_of::<*mut u8>() - 1
    }
}

/// A stack of magazines that any thread may use at any time.
#[repr(C)]
pub struct Stack {
    /// Number of the top magazine, and a tag that every change increases.
    top: AtomicU64,
}

impl Stack {
    /// Puts a magazine with this many objects on top; how many there are now.
    ///
    /// # Safety
    /// The magazine is the caller's alone.
    pub unsafe fn push(&self, space: &Space, magazine: *mut Magazine, objects: usize) -> u32 {
        let number = space.slot_index(magazine);
        // SAFETY: the caller's magazine.
        let first = unsafe { &(*magazine).words[0] };
        let mut top = self.top.load(Ordering::Acquire);
        loop {
            let below = top as u32;
            let depth = if below == 0 { 0 } else { link(space, below).depth };
            let depth = (depth + 1).min(Link::DEPTH_MAX);
            let mine = Link { below, objects: objects as u32, depth };
            first.store(mine.encode(), Ordering::Relaxed);
            let next = tagged(number, top);
            match self.top.compare_exchange_weak(top, next, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return depth,
                Err(now) => top = now,
            }
        }
    }

    /// Takes the top magazine, with its number of objects and the number of magazines left.
    pub fn pop(&self, space: &Space) -> Option<(*mut Magazine, usize, u32)> {
        let mut top = self.top.load(Ordering::Acquire);
        while top as u32 != 0 {
            // Another thread may take this magazine now and change the word; then the tag
            // has changed too and what was read is not used.
            let link = link(space, top as u32);
            let next = tagged(link.below, top);
            match self.top.compare_exchange_weak(top, next, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => {
                    let magazine = space.slot(top as u32);
                    // SAFETY: taken off the stack, it is ours alone.
                    unsafe { (*magazine).words[0].store(0, Ordering::Relaxed) };
                    return Some((magazine, link.objects as usize, link.depth.saturating_sub(1)));
                }
                Err(now) => top = now,
            }
        }
        None
    }

    /// Whether there is nothing on it, at this moment.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.top.load(Ordering::Relaxed) as u32 == 0
    }

    /// Looks at every magazine on it and its number of objects, and takes none. What other
    /// threads move meanwhile may be missed or seen twice.
    pub fn look(&self, space: &Space, mut look: impl FnMut(*mut Magazine, usize)) {
        let mut number = self.top.load(Ordering::Acquire) as u32;
        // A magazine that was moved leads into another stack: not for ever.
        let mut left = self.depth(space);
        while number != 0 && left > 0 {
            let link = link(space, number);
            look(space.slot(number), (link.objects as usize).min(MAGAZINE_MAX));
            number = link.below;
            left -= 1;
        }
    }

    /// Magazines on it, at this moment.
    pub fn depth(&self, space: &Space) -> u32 {
        match self.top.load(Ordering::Acquire) as u32 {
            0 => 0,
            number => link(space, number).depth,
        }
    }
}

/// The stack's word with another magazine on top.
fn tagged(number: u32, before: u64) -> u64 {
    u64::from(number) | (before & !u64::from(u32::MAX)).wrapping_add(1 << 32)
}

fn link(space: &Space, number: u32) -> Link {
    // SAFETY: numbers on a stack name magazines, whose memory is never taken away; the word
    // is only ever accessed atomically while others may look at it.
    Link::decode(unsafe { &(*space.slot(number)).words[0] }.load(Ordering::Relaxed))
}

/// Full and partly full magazines of one class, of a node or of a thread. All zeroes is an empty one.
#[repr(C)]
pub struct Depot {
    stack: Stack,
    /// Fewest magazines since the last tick: so many were not needed.
    low: AtomicU32,
    /// Magazines to return to their pages, because nobody needed them during a tick.
    idle: AtomicU32,
}

impl Depot {
    /// Gives it a magazine; how many there are now.
    ///
    /// # Safety
    /// The magazine is the caller's alone and holds objects of this class and node.
    #[inline]
    pub unsafe fn give(&self, space: &Space, magazine: *mut Magazine, objects: usize) -> u32 {
        // SAFETY: by contract.
        unsafe { self.stack.push(space, magazine, objects) }
    }

    /// Takes a magazine and its number of objects.
    #[inline]
    pub fn take(&self, space: &Space) -> Option<(*mut Magazine, usize)> {
        if self.stack.is_empty() {
            return None;
        }
        let (magazine, objects, left) = self.stack.pop(space)?;
        if left < self.low.load(Ordering::Relaxed) {
            self.low.store(left, Ordering::Relaxed);
        }
        Some((magazine, objects))
    }

    /// Ends a tick: what was never needed during it is idle from now on. How many that are.
    pub fn tick(&self, space: &Space) -> u32 {
        let depth = self.stack.depth(space);
        let idle = self.low.swap(depth, Ordering::Relaxed).min(depth);
        self.idle.store(idle, Ordering::Relaxed);
        idle
    }

    /// Magazines in it, at this moment.
    #[inline]
    pub fn depth(&self, space: &Space) -> u32 {
        self.stack.depth(space)
    }

    /// Objects in it, at this moment.
    pub fn objects(&self, space: &Space) -> usize {
        let mut sum = 0;
        self.stack.look(space, |_, objects| sum += objects);
        sum
    }

    /// Takes a magazine that is idle.
    pub fn take_idle(&self, space: &Space) -> Option<(*mut Magazine, usize)> {
        if self.idle.load(Ordering::Relaxed) == 0 {
            return None;
        }
        // A race may take one more than was idle, which costs nothing but a refill.
        let idle = self.idle.load(Ordering::Relaxed).saturating_sub(1);
        self.idle.store(idle, Ordering::Relaxed);
        self.take(space)
    }
}
