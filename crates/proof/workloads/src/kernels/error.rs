//! Errors of kernels, each with its remedy.

use std::io;

use super::kernel::Kernel;
use super::place::Place;
use crate::WorkloadError;
use crate::size::Grouped;

/// Failure of a kernel. Every message names the cause and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// Threads, memory or `/proc`.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The machine could not be read.
    #[error(transparent)]
    Machine(#[from] numapilot_topology::ReadError),
    /// The description could not be read.
    #[error(transparent)]
    Description(#[from] numapilot_topology::description::DescriptionError),
    /// The data could not be replicated.
    #[error(transparent)]
    Replicate(#[from] numapilot_replicate::Error),
    /// The lab's PMU exists but cannot be used.
    #[error(transparent)]
    Lab(#[from] numapilot_observe::lab::LabError),
    /// A placement that this kernel does not support.
    #[error("{} cannot be placed by {place}; it takes {}", kernel.name(), kernel.places_text())]
    NoSuchPlace {
        /// The kernel.
        kernel: Kernel,
        /// The requested placement.
        place: Place,
    },
    /// The size is too small.
    #[error(
        "{} bytes leave less than a page for each of {threads} threads; raise --size to at least {}",
        Grouped(*.bytes), Grouped(*.least)
    )]
    TooSmall {
        /// The requested size.
        bytes: u64,
        /// The number of threads.
        threads: usize,
        /// The smallest possible size.
        least: u64,
    },
    /// Too few threads.
    #[error("{} needs at least 2 threads; raise --threads", kernel.name())]
    OneThread {
        /// The kernel.
        kernel: Kernel,
    },
    /// Too little memory.
    #[error(
        "{} needs about {} MiB of memory, but {} MiB are available; lower --size",
        kernel.name(), Grouped(*.needed_bytes >> 20), Grouped(*.available_bytes >> 20)
    )]
    TooLittleMemory {
        /// The kernel.
        kernel: Kernel,
        /// Estimated need.
        needed_bytes: u64,
        /// What the kernel can provide without swapping.
        available_bytes: u64,
    },
    /// The process may not use any node with CPUs and memory.
    #[error(
        "this process may not use any CPU of a node with memory; widen its cpuset (cpuset.cpus, cpuset.mems)"
    )]
    NoCpu,
    /// The kernel did not provide or place memory.
    #[error("{what} failed ({cause}); {remedy}")]
    Placement {
        /// The operation.
        what: &'static str,
        /// The kernel's reason.
        cause: io::Error,
        /// The remedy.
        remedy: &'static str,
    },
    /// Pages that did not move.
    #[error(
        "{failed} of {pages} pages could not be moved ({cause}); free memory on the other nodes, or lower --size"
    )]
    Stayed {
        /// How many did not move.
        failed: usize,
        /// The number of pages.
        pages: usize,
        /// The reason for the first one.
        cause: io::Error,
    },
    /// The answer differs from that of the independent computation.
    #[error(
        "wrong result: checksum {computed:016x} was computed, {expected:016x} is right; this is a defect of the kernel or of the memory of this machine"
    )]
    WrongResult {
        /// The checksum of the threads.
        computed: u64,
        /// The checksum of the check.
        expected: u64,
    },
}
