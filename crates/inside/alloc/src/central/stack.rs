//! Lock-free stacks of magazines, and depots made of them.
//!
//! One compare-and-swap moves a whole magazine (numalloc section 3.2 moves sub-lists for the same
//! reason). While a magazine is on a stack, one of its words links to the next one. Magazines are
//! named by number, which leaves half of the stack's word for a tag. The tag detects reuse between
//! a read and the swap (Treiber 1986, with the tag of IBM's System/370).
//!
//! This module knows nothing about magazines but their number and their word, so that small models
//! can try all interleavings.

use crate::layout::size_class::MAGAZINE_MAX;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Where to find magazines and their words.
pub trait Links {
    /// A magazine.
    type Magazine: Copy;
    /// Its number, never 0.
    fn number(&self, magazine: Self::Magazine) -> u32;
    /// The magazine of a number.
    fn magazine(&self, number: u32) -> Self::Magazine;
    /// Its word, which may be read for the lifetime of the process.
    fn word(&self, number: u32) -> &AtomicU64;
}

/// The contents of a magazine's word while it is on a stack.
#[derive(Clone, Copy)]
struct Link {
    /// Number of the magazine below; 0 at the end.
    below: u32,
    /// Objects in this one.
    objects: u32,
    /// Number of magazines on the stack up to and including this one, up to the size of the field.
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

    fn of(links: &impl Links, number: u32) -> Self {
        Self::decode(links.word(number).load(Ordering::Relaxed))
    }
}

/// A stack of magazines that any thread may use at any time.
#[derive(Default)]
#[repr(C)]
pub struct Stack {
    /// Number of the top magazine, and a tag that every change increases.
    top: AtomicU64,
}

impl Stack {
    /// Puts a magazine with `objects` objects on top; returns how many magazines there are now.
    ///
    /// # Safety
    /// The magazine belongs to the caller alone.
    pub unsafe fn push<L: Links>(&self, links: &L, magazine: L::Magazine, objects: usize) -> u32 {
        let number = links.number(magazine);
        let mut top = self.top.load(Ordering::Acquire);
        loop {
            let below = top as u32;
            let depth = if below == 0 { 0 } else { Link::of(links, below).depth };
            let depth = (depth + 1).min(Link::DEPTH_MAX);
            let mine = Link { below, objects: objects as u32, depth };
            links.word(number).store(mine.encode(), Ordering::Relaxed);
            let next = tagged(number, top);
            match self.top.compare_exchange_weak(top, next, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return depth,
                Err(now) => top = now,
            }
        }
    }

    /// Takes the top magazine, with its number of objects and the number of magazines left.
    pub fn pop<L: Links>(&self, links: &L) -> Option<(L::Magazine, usize, u32)> {
        let mut top = self.top.load(Ordering::Acquire);
        while top as u32 != 0 {
            // Another thread may take this magazine now and change the word. The tag has then
            // changed too, and the value read here is not used.
            let link = Link::of(links, top as u32);
            let next = tagged(link.below, top);
            match self.top.compare_exchange_weak(top, next, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => {
                    // The magazine is off the stack and belongs to this thread alone.
                    links.word(top as u32).store(0, Ordering::Relaxed);
                    let left = link.depth.saturating_sub(1);
                    return Some((links.magazine(top as u32), link.objects as usize, left));
                }
                Err(now) => top = now,
            }
        }
        None
    }

    /// Whether the stack is empty at this moment.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.top.load(Ordering::Relaxed) as u32 == 0
    }

    /// Visits every magazine on it and its number of objects, and takes none. Magazines that other
    /// threads move meanwhile may be missed or visited twice.
    pub fn look<L: Links>(&self, links: &L, mut look: impl FnMut(L::Magazine, usize)) {
        let mut number = self.top.load(Ordering::Acquire) as u32;
        // A magazine that was moved leads into another stack, so the number of steps is limited.
        let mut left = self.depth(links);
        while number != 0 && left > 0 {
            let link = Link::of(links, number);
            look(links.magazine(number), (link.objects as usize).min(MAGAZINE_MAX));
            number = link.below;
            left -= 1;
        }
    }

    /// Number of magazines on it at this moment.
    pub fn depth(&self, links: &impl Links) -> u32 {
        match self.top.load(Ordering::Acquire) as u32 {
            0 => 0,
            number => Link::of(links, number).depth,
        }
    }
}

/// The stack's word with another magazine on top.
fn tagged(number: u32, before: u64) -> u64 {
    u64::from(number) | (before & !u64::from(u32::MAX)).wrapping_add(1 << 32)
}

/// Full and partly full magazines: of one class, of a node or of a thread, or of all classes in an
/// inbox. All zeroes is an empty depot.
#[derive(Default)]
#[repr(C)]
pub struct Depot {
    stack: Stack,
    /// Fewest magazines since the last tick: this many were not needed.
    low: AtomicU32,
    /// Magazines to return to their pages, because no thread needed them during a tick.
    idle: AtomicU32,
}

impl Depot {
    /// Gives it a magazine; returns how many magazines there are now.
    ///
    /// # Safety
    /// The magazine belongs to the caller alone and holds objects of this class and node.
    #[inline]
    pub unsafe fn give<L: Links>(&self, links: &L, magazine: L::Magazine, objects: usize) -> u32 {
        // SAFETY: by contract.
        unsafe { self.stack.push(links, magazine, objects) }
    }

    /// Takes a magazine and its number of objects.
    #[inline]
    pub fn take<L: Links>(&self, links: &L) -> Option<(L::Magazine, usize)> {
        if self.stack.is_empty() {
            return None;
        }
        let (magazine, objects, left) = self.stack.pop(links)?;
        if left < self.low.load(Ordering::Relaxed) {
            self.low.store(left, Ordering::Relaxed);
        }
        Some((magazine, objects))
    }

    /// Ends a tick: magazines that were never needed during it are idle from now on. Returns their
    /// number.
    pub fn tick(&self, links: &impl Links) -> u32 {
        let depth = self.stack.depth(links);
        let idle = self.low.swap(depth, Ordering::Relaxed).min(depth);
        self.idle.store(idle, Ordering::Relaxed);
        idle
    }

    /// Number of magazines in it at this moment.
    #[inline]
    pub fn depth(&self, links: &impl Links) -> u32 {
        self.stack.depth(links)
    }

    /// Visits every magazine in it and its number of objects; see [`Stack::look`].
    pub fn look<L: Links>(&self, links: &L, look: impl FnMut(L::Magazine, usize)) {
        self.stack.look(links, look);
    }

    /// Number of objects in it at this moment.
    pub fn objects(&self, links: &impl Links) -> usize {
        let mut sum = 0;
        self.look(links, |_, objects| sum += objects);
        sum
    }

    /// Takes a magazine that is idle.
    pub fn take_idle<L: Links>(&self, links: &L) -> Option<(L::Magazine, usize)> {
        if self.idle.load(Ordering::Relaxed) == 0 {
            return None;
        }
        // A race may take one more than was idle, which costs only a refill.
        let idle = self.idle.load(Ordering::Relaxed).saturating_sub(1);
        self.idle.store(idle, Ordering::Relaxed);
        self.take(links)
    }
}
