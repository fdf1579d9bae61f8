//! Runs searches in parallel.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls `each` for this many seeds, beginning with `first`, on all CPUs.
pub fn on_all<T: Send>(first: u64, seeds: u64, each: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = AtomicU64::new(first);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds {
                        break;
                    }
                    let result = each(seed);
                    results.lock().unwrap().push(result);
                }
            });
        }
    });
    results.into_inner().unwrap()
}
