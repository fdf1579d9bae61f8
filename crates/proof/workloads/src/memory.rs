//! How much memory a workload will need, and how much there is: better to refuse than to
//! be killed half-way.

use numapilot_observe::Resident;
use procfs::Current;
use procfs::process::Process;

use crate::WorkloadError;
use crate::aggregation::{Function, Options};
use crate::data::Record;
use crate::table::preaggregation;
use crate::w1;

/// What an aggregation needs beside its input.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Per record, beside the record itself.
    pub bytes_per_record: u64,
    /// Per group.
    pub bytes_per_group: u64,
    /// Of a thread's partial results, by the estimated number of groups.
    pub preaggregation_bytes: fn(u64) -> u64,
}

/// A slot of 16 bytes, of which between half and three quarters are free.
const TABLE_BYTES_PER_GROUP: u64 = 64;
/// Slots kept free for what a thread may claim at once, its watch over hot keys, its stack.
const BYTES_PER_THREAD: u64 = 256 << 10;
/// Key and aggregate.
const ROW_BYTES: u64 = 16;

impl Need {
    /// The need of one function.
    #[must_use]
    pub const fn of(function: Function) -> Self {
        match function {
            Function::Count => Self {
                bytes_per_record: 0,
                bytes_per_group: TABLE_BYTES_PER_GROUP + ROW_BYTES,
                preaggregation_bytes: preaggregation::bytes::<0>,
            },
            // A buffer that has just doubled is half empty and its old half is still held;
            // a group is a header of 40 bytes and at least four values with malloc's own.
            Function::Median => Self {
                bytes_per_record: 2 * size_of::<u64>() as u64,
                bytes_per_group: TABLE_BYTES_PER_GROUP + ROW_BYTES + 40 + 48,
                preaggregation_bytes: preaggregation::bytes::<{ w1::RUN }>,
            },
        }
    }

    /// For a whole run. A check holds a second copy of the input.
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

/// Refuses a task that needs more memory than there is.
///
/// # Errors
/// [`WorkloadError::TooLittleMemory`] with the task and how to need less, and
/// [`WorkloadError::Proc`].
pub fn suffices(
    needed_bytes: u64,
    task: impl FnOnce() -> String,
    remedy: impl FnOnce() -> String,
) -> Result<(), WorkloadError> {
    let available_bytes = available_bytes()?;
    if needed_bytes <= available_bytes {
        return Ok(());
    }
    let (task, remedy) = (task(), remedy());
    Err(WorkloadError::TooLittleMemory { task, needed_bytes, available_bytes, remedy })
}

/// What this process has resident now, huge pages of hugetlbfs included.
///
/// # Errors
/// [`WorkloadError::Proc`].
pub fn resident_bytes() -> Result<u64, WorkloadError> {
    Ok(own()?.now_bytes)
}

/// High-water mark of this process's resident memory, or what it has now with huge pages of
/// hugetlbfs where that is more. From `/proc`, because `ru_maxrss`
/// begins with what the parent had resident when it forked.
///
/// # Errors
/// [`WorkloadError::Proc`].
pub fn peak_rss_bytes() -> Result<u64, WorkloadError> {
    Ok(own()?.peak_bytes)
}

fn own() -> Result<Resident, WorkloadError> {
    let what = "VmRSS in /proc/self/status";
    let process =
        Process::myself().map_err(|e| WorkloadError::Proc { what, reason: e.to_string() });
    let missing = || WorkloadError::Proc { what, reason: "the line is missing".to_owned() };
    Resident::of(&process?).ok_or_else(missing)
}

/// What the kernel expects to be able to give without swapping.
///
/// # Errors
/// [`WorkloadError::Proc`].
pub fn available_bytes() -> Result<u64, WorkloadError> {
    let proc = |reason| WorkloadError::Proc { what: "/proc/meminfo", reason };
    let meminfo = procfs::Meminfo::current().map_err(|e| proc(e.to_string()))?;
    Ok(meminfo.mem_available.unwrap_or(meminfo.mem_free))
}
