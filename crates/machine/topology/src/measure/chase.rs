//! Dependent loads: each load returns the address of the next one.
//!
//! One random cycle links all cache lines of the memory. No prefetcher can guess the next line, and
//! no line repeats before all others were read.

use std::hint::black_box;
use std::time::{Duration, Instant};

use numapilot_sys::splitmix::{GAMMA, mix};
use rustix::time::{ClockId, clock_gettime};

/// Distance between two lines of the cycle. Processors often fetch lines in pairs of neighbours, so
/// each line of the cycle is in a pair of its own.
pub const LINE_BYTES: usize = 128;
const LINE_WORDS: usize = LINE_BYTES / size_of::<u64>();
/// Loads between two readings of the clock: about a millisecond.
const BATCH: usize = 10_000;

/// Writes one random cycle through all lines (Sattolo's algorithm); each line's first word
/// is the index of the next line's first word.
pub fn write_cycle(words: &mut [u64], seed: u64) {
    let lines = words.len() / LINE_WORDS;
    let mut next: Vec<u32> = (0..lines).map(|line| u32::try_from(line).unwrap_or(0)).collect();
    let mut random = Random(seed);
    for i in (1..lines).rev() {
        next.swap(i, random.below(i));
    }
    for (line, next) in next.into_iter().enumerate() {
        words[line * LINE_WORDS] = u64::from(next) * LINE_WORDS as u64;
    }
}

/// `SplitMix64`: random enough to defeat a prefetcher.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mix(self.0)
    }

    /// A number below `limit`, by the high half of a product.
    fn below(&mut self, limit: usize) -> usize {
        let product = u128::from(self.next()) * limit as u128;
        usize::try_from(product >> 64).unwrap_or(0)
    }
}

/// Follows a cycle.
pub struct Chase<'a> {
    words: &'a [u64],
    at: usize,
}

impl<'a> Chase<'a> {
    /// Begins at line `at` of a cycle that [`write_cycle`] wrote.
    pub fn new(words: &'a [u64], at: usize) -> Self {
        Self { words, at }
    }

    /// The current line.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Follows `links` links.
    pub fn follow(&mut self, links: usize) {
        let mut at = self.at;
        for _ in 0..links {
            // An index beyond the memory never occurs; 0 keeps the loop free of panics.
            at = self.words.get(at).map_or(0, |next| usize::try_from(*next).unwrap_or(0));
        }
        self.at = black_box(at);
    }

    /// Follows links for about `time`.
    ///
    /// Measures the thread's own CPU time, which stands still while another program has the CPU.
    pub fn run(&mut self, time: Duration) -> Timed {
        let (start, cpu_start) = (Instant::now(), cpu_seconds());
        let mut batches = 0u32;
        loop {
            self.follow(BATCH);
            batches = batches.saturating_add(1);
            let wall = start.elapsed();
            if wall >= time {
                let cpu = cpu_seconds() - cpu_start;
                let loads = f64::from(batches) * BATCH as f64;
                return Timed { ns: cpu * 1e9 / loads, cpu_share: cpu / wall.as_secs_f64() };
            }
        }
    }
}

/// Nanoseconds per load, and the share of the time in which the thread had the CPU.
pub struct Timed {
    pub ns: f64,
    pub cpu_share: f64,
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // Seconds of one run are far below 2^52.
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cycle_meets_every_line_once() {
        for lines in [1, 2, 3, 1000] {
            let mut words = vec![0; lines * LINE_WORDS];
            write_cycle(&mut words, 7);
            let mut seen = vec![false; lines];
            let mut chase = Chase::new(&words, 0);
            for _ in 0..lines {
                let line = chase.at / LINE_WORDS;
                assert!(!seen[line], "line {line} of {lines} twice");
                seen[line] = true;
                chase.follow(1);
            }
            assert_eq!(chase.at, 0, "the cycle closes");
        }
    }
}
