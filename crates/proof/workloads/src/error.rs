//! Errors of workloads, each with its remedy.

use std::io;

use crate::size::Grouped;

/// Failure of a workload. Every message names the cause and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// A data set without records has no answer.
    #[error("0 records leave nothing to aggregate; give --records at least 1")]
    NoRecords,
    /// Groups need at least one key.
    #[error("0 groups leave no key to draw; give --groups at least 1")]
    NoGroups,
    /// Every group needs a record.
    #[error(
        "{} groups cannot be made of {} records; lower --groups or raise --records",
        Grouped(*.groups), Grouped(*.records)
    )]
    MoreGroupsThanRecords {
        /// The number of groups requested.
        groups: u64,
        /// The number of records requested.
        records: u64,
    },
    /// A table without tuples joins nothing.
    #[error("a table of 0 tuples has nothing to join; give --small and --large at least 1")]
    NoTuples,
    /// Too little memory.
    #[error(
        "{task} needs about {} MiB of memory, but {} MiB are available; {remedy}",
        Grouped(*.needed_bytes >> 20), Grouped(*.available_bytes >> 20)
    )]
    TooLittleMemory {
        /// The task.
        task: String,
        /// Estimated need.
        needed_bytes: u64,
        /// What the kernel can provide without swapping.
        available_bytes: u64,
        /// How to need less.
        remedy: String,
    },
    /// Too little memory for the objects of `alloc-return`.
    #[error(
        "the objects and their list need {} MiB of memory, but {} MiB are available; lower --bytes, or give larger objects (--object-bytes)",
        Grouped(*.needed >> 20), Grouped(*.available >> 20)
    )]
    TooLittleMemoryForObjects {
        /// Bytes needed.
        needed: u64,
        /// Bytes that the kernel can provide without swapping.
        available: u64,
    },
    /// `malloc` failed.
    #[error(
        "malloc refused {} MiB for {what}; make the input smaller, or raise the memory limit (ulimit -v, cgroup)",
        Grouped(*.bytes >> 20)
    )]
    Malloc {
        /// What the memory was for.
        what: &'static str,
        /// Its size.
        bytes: u64,
    },
    /// The kernel refused to start a thread.
    #[error(
        "thread {number} of {threads} could not be started; lower --threads, or raise the limit (ulimit -u, pids.max of the cgroup)"
    )]
    Thread {
        /// The number of the thread.
        number: usize,
        /// The number of threads requested.
        threads: usize,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The answer differs from that of the independent computation.
    #[error(
        "wrong result: {computed} was computed, {expected} is right; this is a defect of the workload, of the allocator it ran under, or of the memory of this machine"
    )]
    WrongResult {
        /// The answer of the workload.
        computed: String,
        /// The answer of the check.
        expected: String,
    },
    /// An object did not hold what was written into it.
    #[error(
        "damaged objects: the checksum of what was read is {computed:016x}, that of what was written is {expected:016x}; this is a defect of the allocator, of the workload, or of the memory of this machine"
    )]
    DamagedObjects {
        /// Checksum of what was read.
        computed: u64,
        /// Checksum of what was written.
        expected: u64,
    },
    /// The records could not be written.
    #[error("the records could not be written to {path}; check the path and the free space")]
    Dump {
        /// The file.
        path: std::path::PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// `/proc` is missing or unreadable.
    #[error("{what} could not be read ({reason}); mount /proc")]
    Proc {
        /// The file.
        what: &'static str,
        /// The reason.
        reason: String,
    },
}
