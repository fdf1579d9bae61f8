//! The allocator as the global one of a Rust program: all memory of the standard library's
//! collections comes from it.
//!
//!     cargo run --release -p numapilot-alloc --example global

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::thread;

#[global_allocator]
static ALLOCATOR: numapilot_alloc::Numapilot = numapilot_alloc::Numapilot;

/// Counts words in a map, sorts the longest names, and cycles a queue.
fn work(seed: u64) -> u64 {
    let mut counts = HashMap::new();
    let mut queue = VecDeque::new();
    let mut random = seed;
    for _ in 0..50_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *counts.entry(format!("word {}", (random >> 33) % 1000)).or_insert(0u64) += 1;
        queue.push_back(vec![random; (random >> 60) as usize]);
        if queue.len() > 100 {
            queue.pop_front();
        }
    }
    let sorted: BTreeMap<_, _> = counts.into_iter().collect();
    sorted.values().sum::<u64>() + queue.len() as u64
}

fn main() {
    let threads: Vec<_> = (1..=4).map(|seed| thread::spawn(move || work(seed))).collect();
    let sums: Vec<_> = threads.into_iter().map(|t| t.join().unwrap_or_default()).collect();
    println!("{sums:?}");
}
