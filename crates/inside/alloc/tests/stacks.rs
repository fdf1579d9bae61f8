//! Stacks, depots and size classes alone, on real threads and under Miri, which does not support the system calls
//! and the assembler of the rest.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what a test is for")]

#[path = "../src/layout/size_class.rs"]
#[allow(dead_code, reason = "of this module the stacks need one constant")]
mod size_class;
mod layout {
    pub(crate) use super::size_class;
}
#[path = "../src/central/stack.rs"]
mod stack;
#[path = "../src/sync.rs"]
mod sync;

use std::sync::atomic::AtomicU64;
use std::thread;

use stack::{Depot, Links, Stack};

struct Words(Vec<AtomicU64>);

impl Links for Words {
    type Magazine = u32;
    fn number(&self, magazine: u32) -> u32 {
        magazine
    }
    fn magazine(&self, number: u32) -> u32 {
        number
    }
    fn word(&self, number: u32) -> &AtomicU64 {
        &self.0[number as usize - 1]
    }
}

fn push(stack: &Stack, words: &Words, magazine: u32) -> u32 {
    // SAFETY: the tests push only what they made or popped.
    unsafe { stack.push(words, magazine, magazine as usize) }
}

fn words(count: usize) -> Words {
    Words((0..count).map(|_| AtomicU64::new(0)).collect())
}

#[test]
fn the_last_one_comes_first_and_the_depth_is_known() {
    let (stack, words) = (Stack::default(), words(3));
    assert!(stack.is_empty() && stack.pop(&words).is_none());
    assert_eq!([1, 2, 3].map(|magazine| push(&stack, &words, magazine)), [1, 2, 3]);
    let mut seen = Vec::new();
    stack.look(&words, |magazine, objects| seen.push((magazine, objects)));
    assert_eq!(seen, [(3, 3), (2, 2), (1, 1)]);
    assert_eq!(stack.pop(&words), Some((3, 3, 2)));
    assert_eq!(stack.depth(&words), 2);
}

#[test]
fn what_was_not_needed_during_a_tick_is_idle() {
    let (depot, words) = (Depot::default(), words(3));
    for magazine in 1..=3 {
        // SAFETY: made here, given once.
        unsafe { depot.give(&words, magazine, 7) };
    }
    assert_eq!((depot.tick(&words), depot.objects(&words)), (0, 21));
    let taken = depot.take(&words).map(|(magazine, _)| magazine);
    assert_eq!(taken, Some(3));
    // At least two were left.
    assert_eq!(depot.tick(&words), 2);
    assert!(depot.take_idle(&words).is_some() && depot.take_idle(&words).is_some());
    assert!(depot.take_idle(&words).is_none());
    assert_eq!(depot.depth(&words), 0);
}

#[test]
fn threads_lose_nothing() {
    const COUNT: u32 = 8;
    let turns = if cfg!(miri) { 50 } else { 20_000 };
    let (stacks, words) = ([Stack::default(), Stack::default()], words(COUNT as usize));
    for magazine in 1..=COUNT {
        push(&stacks[0], &words, magazine);
    }
    thread::scope(|scope| {
        for thread in 0..4 {
            let (stacks, words) = (&stacks, &words);
            scope.spawn(move || {
                for turn in thread..thread + turns {
                    if let Some((magazine, ..)) = stacks[turn % 2].pop(words) {
                        push(&stacks[(turn + 1) % 2], words, magazine);
                    }
                }
            });
        }
    });
    let rest = stacks.iter().flat_map(|stack| std::iter::from_fn(|| stack.pop(&words)));
    let mut rest: Vec<u32> = rest.map(|(magazine, ..)| magazine).collect();
    rest.sort_unstable();
    assert!(rest.iter().copied().eq(1..=COUNT), "{rest:?}");
}
