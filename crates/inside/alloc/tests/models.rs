//! All interleavings of a few threads on stacks and depots, as the memory model of C11 allows them,
//! by loom. The modules are compiled here again, with loom's atomics.

#[path = "../src/layout/size_class.rs"]
#[allow(dead_code, reason = "of this module the stacks need one constant")]
mod size_class;
mod layout {
    pub(crate) use super::size_class;
}
#[path = "../src/central/stack.rs"]
#[allow(dead_code, reason = "not every function has a model")]
mod stack;
/// Replaces `core`'s atomics.
mod sync {
    pub use loom::sync::atomic;
}

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use stack::{Depot, Links, Stack};

/// Magazines 1 to `N` with their words. The contents are plain memory, so that loom detects when
/// two threads have the same magazine at a time, or when one does not see what another wrote.
struct Magazines<const N: usize> {
    words: [AtomicU64; N],
    contents: [UnsafeCell<u32>; N],
}

impl<const N: usize> Magazines<N> {
    fn new() -> Self {
        Self {
            words: std::array::from_fn(|_| AtomicU64::new(0)),
            contents: std::array::from_fn(|_| UnsafeCell::new(0)),
        }
    }

    /// Changes the contents of a magazine that only the caller has.
    fn change(&self, magazine: u32, change: impl FnOnce(&mut u32)) {
        // SAFETY: loom checks that no other thread has it now.
        self.contents[magazine as usize - 1].with_mut(|contents| change(unsafe { &mut *contents }));
    }
}

impl<const N: usize> Links for Magazines<N> {
    type Magazine = u32;
    fn number(&self, magazine: u32) -> u32 {
        magazine
    }
    fn magazine(&self, number: u32) -> u32 {
        number
    }
    fn word(&self, number: u32) -> &AtomicU64 {
        &self.words[number as usize - 1]
    }
}

/// Tries all interleavings with at most three preemptions of a running thread. No known defect of
/// such structures needs more (Musuvathi, Qadeer 2007).
fn model(interleaved: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(interleaved);
}

/// The number of objects in a magazine; the models only check that none is lost.
fn objects(magazine: u32) -> usize {
    10 * magazine as usize
}

struct Shared<const N: usize, T> {
    magazines: Magazines<N>,
    place: T,
}

impl<const N: usize> Shared<N, Stack> {
    fn push(&self, magazine: u32) {
        // SAFETY: the models push only what they made or popped.
        unsafe { self.place.push(&self.magazines, magazine, objects(magazine)) };
    }

    fn pop(&self) -> Option<u32> {
        let (magazine, held, _) = self.place.pop(&self.magazines)?;
        assert_eq!(held, objects(magazine));
        self.magazines.change(magazine, |contents| *contents += 1);
        Some(magazine)
    }

    /// Everything that is left, in order of the numbers.
    fn rest(&self) -> Vec<u32> {
        let mut rest: Vec<u32> = std::iter::from_fn(|| self.pop()).collect();
        rest.sort_unstable();
        rest
    }
}

/// A stack with magazines 1 to `N` on it, the last on top.
fn full<const N: usize>() -> Arc<Shared<N, Stack>> {
    let shared = Arc::new(Shared { magazines: Magazines::new(), place: Stack::default() });
    (1..).take(N).for_each(|magazine| shared.push(magazine));
    shared
}

fn spawn<const N: usize, T: 'static, R: 'static>(
    shared: &Arc<Shared<N, T>>,
    work: impl FnOnce(&Shared<N, T>) -> R + 'static,
) -> thread::JoinHandle<R>
where
    Shared<N, T>: 'static,
{
    let shared = Arc::clone(shared);
    thread::spawn(move || work(&shared))
}

/// Threads take magazines, use them and put them back.
#[test]
fn a_magazine_is_one_threads_at_a_time() {
    model(|| {
        let shared = full::<2>();
        let turn = |shared: &Shared<2, Stack>| shared.pop().map(|mine| shared.push(mine));
        let other = spawn(&shared, turn);
        turn(&shared);
        other.join().unwrap();
        assert_eq!(shared.rest(), [1, 2]);
        assert!(shared.place.is_empty());
    });
}

/// A magazine returns to the top while another thread is about to replace it, and meanwhile the one
/// below it is gone. Without a tag, that thread would put the lower one back on the stack.
#[test]
fn reuse_between_a_read_and_the_swap_is_noticed() {
    model(|| {
        let shared = full::<3>();
        let other = spawn(&shared, |shared| {
            let (first, second) = (shared.pop(), shared.pop());
            first.into_iter().for_each(|magazine| shared.push(magazine));
            second
        });
        let mine = shared.pop();
        let theirs = other.join().unwrap();
        let mut all = shared.rest();
        all.extend(mine);
        all.extend(theirs);
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3]);
    });
}

/// Objects on the way to their home node: the thread that takes them sees what was written.
#[test]
fn an_inbox_delivers_what_was_written() {
    model(|| {
        let shared =
            Arc::new(Shared::<2, _> { magazines: Magazines::new(), place: Stack::default() });
        let senders = [1, 2].map(|magazine| {
            spawn(&shared, move |shared| {
                shared.magazines.change(magazine, |contents| *contents = 10 * magazine);
                shared.push(magazine);
            })
        });
        // The owner takes what has arrived, and the rest at the end.
        let early = shared.pop();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        let mut all = shared.rest();
        all.extend(early);
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
        for magazine in [1, 2] {
            shared.magazines.change(magazine, |contents| assert_eq!(*contents, 10 * magazine + 1));
        }
    });
}

/// The idle magazines of a depot are returned while threads take and give. Each magazine is
/// returned once or is still there, whatever values the racing marks have.
#[test]
fn a_depot_loses_nothing_when_it_is_emptied() {
    model(|| {
        let shared =
            Arc::new(Shared::<2, _> { magazines: Magazines::new(), place: Depot::default() });
        let give = |shared: &Shared<2, Depot>, magazine| {
            // SAFETY: made or taken by the caller.
            unsafe { shared.place.give(&shared.magazines, magazine, objects(magazine)) };
        };
        let take = |shared: &Shared<2, Depot>| {
            let (magazine, held) = shared.place.take(&shared.magazines)?;
            assert_eq!(held, objects(magazine));
            shared.magazines.change(magazine, |contents| *contents += 1);
            Some(magazine)
        };
        give(&shared, 1);
        give(&shared, 2);
        shared.place.tick(&shared.magazines);
        let reclaimer = spawn(&shared, |shared| {
            let idle = shared.place.tick(&shared.magazines);
            assert!(idle <= 2, "{idle}");
            let (magazine, _) = shared.place.take_idle(&shared.magazines)?;
            shared.magazines.change(magazine, |contents| *contents += 1);
            Some(magazine)
        });
        take(&shared).into_iter().for_each(|magazine| give(&shared, magazine));
        let mut all = Vec::from_iter(reclaimer.join().unwrap());
        all.extend(std::iter::from_fn(|| take(&shared)));
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    });
}
