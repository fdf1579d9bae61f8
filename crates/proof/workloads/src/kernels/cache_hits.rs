//! The share of an access's lines that are in caches.

use numapilot_lab_model::Model;

use super::load::{Access, Usage};

/// Where the lines of an access are found, as shares of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheHits {
    /// In the thread's own last-level cache.
    pub(super) here: f64,
    /// In the last-level cache of another thread, which has modified them.
    pub(super) elsewhere: f64,
}

impl CacheHits {
    /// A stream through more memory than the cache holds never hits. Random accesses hit in
    /// proportion to the cache's size.
    pub(super) fn of_access(model: &Model, access: &Access) -> Self {
        let nothing = Self { here: 0.0, elsewhere: 0.0 };
        let Some(last) = model.caches.last() else { return nothing };
        if access.is_stream() {
            return nothing;
        }
        let each = last.bytes as f64 / access.footprint_bytes.max(1) as f64;
        let here = each.min(1.0);
        let (others, again) = match access.usage {
            Usage::Read | Usage::Write => (0, 1.0),
            Usage::SharedStore(first) | Usage::SharedUpdate(first) => {
                (last.cache_of_cpu.iter().max().copied().unwrap_or(0), 1.0 - first)
            }
        };
        let elsewhere = (each * others as f64).min(1.0 - here);
        Self { here: here * again, elsewhere: elsewhere * again }
    }

    /// The share that is only in memory.
    pub(super) fn nowhere(self) -> f64 {
        1.0 - self.here - self.elsewhere
    }

    /// The share of lines that are written back to memory eventually.
    pub(super) fn goes_back(self, usage: Usage) -> f64 {
        match usage {
            Usage::Read => 0.0,
            Usage::Write | Usage::SharedStore(_) => self.nowhere(),
            Usage::SharedUpdate(_) => self.nowhere() + self.elsewhere,
        }
    }
}
