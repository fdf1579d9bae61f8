//! Reaping orphans that this process [adopts](numapilot_sys::prctl::adopt_orphans). No other
//! process waits for them, and their resource usage appears in no other figure.

use std::sync::atomic::{AtomicU64, Ordering};

use numapilot_sys::process;

/// Largest resident memory of an orphan since the last call of [`take_peak_rss_bytes`].
static PEAK_RSS_BYTES: AtomicU64 = AtomicU64::new(0);

/// Reaps a child of this process if it has ended and no other caller has reaped it. Its peak of
/// resident memory, including children that it waited for, counts for [`take_peak_rss_bytes`].
pub fn reap_orphan(pid: i32) {
    if let Ok(Some(usage)) = process::reap(pid) {
        PEAK_RSS_BYTES.fetch_max(usage.peak_rss_bytes, Ordering::Relaxed);
    }
}

/// Largest resident memory of an orphan that was reaped since the last call.
pub fn take_peak_rss_bytes() -> u64 {
    PEAK_RSS_BYTES.swap(0, Ordering::Relaxed)
}
