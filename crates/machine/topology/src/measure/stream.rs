//! Sequential reads by several CPUs at once, at full speed or at a given rate.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use super::pin;
use crate::CpuId;

/// Words read between two readings of the clock: enough for prefetchers to start, and few enough
/// for an even rate.
const CHUNK: usize = 8 << 10;

/// Bytes that one reader has read, in its own pair of cache lines.
#[derive(Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

/// Lets each CPU read its part of `words` repeatedly while `body` runs. Returns the total read rate
/// in 10^9 bytes per second, and the result of `body`.
///
/// `gb_per_s` is the total rate of all CPUs; `None` is full speed.
///
/// # Errors
/// When a thread cannot be started.
pub fn while_reading<T>(
    words: &[u64],
    cpus: &[CpuId],
    gb_per_s: Option<f64>,
    body: impl FnOnce() -> io::Result<T>,
) -> io::Result<(f64, T)> {
    let over = AtomicBool::new(false);
    let counters: Vec<Counter> = cpus.iter().map(|_| Counter::default()).collect();
    let part = (words.len() / cpus.len().max(1)).max(1);
    let readers = u32::try_from(cpus.len()).unwrap_or(u32::MAX).max(1);
    let bytes_per_s = gb_per_s.map(|rate| rate * 1e9 / f64::from(readers));
    let total = || counters.iter().map(|c| c.0.load(Ordering::Relaxed)).sum::<u64>();
    thread::scope(|scope| {
        let start = || {
            for ((&cpu, words), counter) in cpus.iter().zip(words.chunks(part)).zip(&counters) {
                let over = &over;
                thread::Builder::new().spawn_scoped(scope, move || {
                    pin(cpu);
                    read(words, counter, over, bytes_per_s);
                })?;
            }
            // Start the clock once every reader has begun.
            while counters.iter().any(|c| c.0.load(Ordering::Relaxed) == 0) {
                thread::sleep(Duration::from_micros(100));
            }
            let (began, before) = (Instant::now(), total());
            let value = body()?;
            // A run lasts seconds at most: far below 2^52 bytes.
            let bytes = (total() - before) as f64;
            Ok((bytes / began.elapsed().as_secs_f64() / 1e9, value))
        };
        let result = start();
        over.store(true, Ordering::Relaxed);
        result
    })
}

/// Reads `words` repeatedly until `over`, never ahead of `bytes_per_s`.
fn read(words: &[u64], counter: &Counter, over: &AtomicBool, bytes_per_s: Option<f64>) {
    let start = Instant::now();
    let mut read = 0u64;
    loop {
        for chunk in words.chunks(CHUNK) {
            black_box(chunk.iter().fold(0u64, |sum, word| sum.wrapping_add(*word)));
            read += size_of_val(chunk) as u64;
            counter.0.store(read, Ordering::Relaxed);
            if let Some(rate) = bytes_per_s {
                let due = time_for(read, rate);
                while start.elapsed() < due && !over.load(Ordering::Relaxed) {
                    spin_loop();
                }
            }
            if over.load(Ordering::Relaxed) {
                return;
            }
        }
        // Under a real-time policy no other thread would run, including the one that sets `over`.
        thread::yield_now();
    }
}

/// The time that reading these bytes takes at this rate.
fn time_for(bytes: u64, bytes_per_s: f64) -> Duration {
    Duration::try_from_secs_f64(bytes as f64 / bytes_per_s).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_sets_the_pace() {
        assert_eq!(time_for(5_000_000, 1e9), Duration::from_millis(5));
        assert_eq!(time_for(1, 0.0), Duration::MAX);
        assert_eq!(time_for(1, f64::NAN), Duration::MAX);
    }

    #[test]
    fn what_was_read_meanwhile_is_counted() {
        let words = vec![1; 1 << 16];
        let pause = || {
            thread::sleep(Duration::from_millis(5));
            Ok(7)
        };
        // On a busy machine, a reader that got no CPU during the pause has read nothing.
        let counted = (0..400).any(|_| {
            let (gb_per_s, value) = while_reading(&words, &[CpuId(0)], None, pause).unwrap();
            assert_eq!(value, 7);
            gb_per_s > 0.0
        });
        assert!(counted);
    }

    #[test]
    fn readers_end_when_the_body_fails() {
        let words = vec![1; 1 << 16];
        let fail = || Err::<(), _>(io::Error::other("no"));
        assert!(while_reading(&words, &[CpuId(0)], None, fail).is_err());
    }
}
