//! The memory that an aggregation needs.

use super::options::Options;
use crate::data::Record;

/// The memory that an aggregation needs in addition to its input.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Per record, in addition to the record itself.
    pub bytes_per_record: u64,
    /// Per group.
    pub bytes_per_group: u64,
    /// For the partial results of one thread, by the estimated number of groups.
    pub preaggregation_bytes: fn(u64) -> u64,
}

/// Slots kept free for the keys that a thread may claim at once, its table of hot keys, and its
/// stack.
const BYTES_PER_THREAD: u64 = 256 << 10;
/// A slot of 16 bytes in the table, of which between half and three quarters are free, and a row of
/// key and aggregate.
pub const TABLE_BYTES_PER_GROUP: u64 = 64 + 16;

impl Need {
    /// Bytes for a whole run. A check holds a second copy of the input.
    #[must_use]
    pub fn bytes(self, options: &Options) -> u64 {
        let record = size_of::<Record>() as u64;
        let check = if options.check { record } else { 0 };
        let per_record = record + self.bytes_per_record.max(check);
        let records = options.set.records.saturating_mul(per_record);
        let groups = options.set.groups.max(options.estimate);
        let groups = groups.saturating_mul(self.bytes_per_group);
        let thread = BYTES_PER_THREAD + (self.preaggregation_bytes)(options.estimate);
        let threads = (options.threads.get() as u64).saturating_mul(thread);
        records.saturating_add(groups).saturating_add(threads)
    }
}
