//! Waiting for orphans that this process [adopts](numapilot_sys::prctl::adopt_orphans): nobody else
//! does, and what they have used is in nobody's figures.

use std::sync::atomic::{AtomicU64, Ordering};

use numapilot_sys::process;

/// The most that one of them had resident, since it was taken last.
static PEAK_RSS_BYTES: AtomicU64 = AtomicU64::new(0);

/// Waits for a child of this process that has ended, whoever looks first; its peak of resident
/// memory, children it waited for included, counts for [`take_peak_rss_bytes`].
pub fn reap_orphan(pid: i32) {
    if let Ok(Some(usage)) = process::reap(pid) {
        PEAK_RSS_BYTES.fetch_max(usage.peak_rss_bytes, Ordering::Relaxed);
    }
}

/// The most resident memory of any orphan that was waited for since the last call.
pub fn take_peak_rss_bytes() -> u64 {
    PEAK_RSS_BYTES.swap(0, Ordering::Relaxed)
}
