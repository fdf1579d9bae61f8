//! What can go wrong with a kernel, and what to do about it.

use std::io;

use super::kernel::Kernel;
use super::place::Place;
use crate::WorkloadError;
use crate::size::Grouped;

/// Failure of a kernel. Every message names cause and remedy.
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
    /// There are no copies.
    #[error(transparent)]
    Replicate(#[from] numapilot_replicate::Error),
    /// The lab's PMU is there and cannot be used.
    #[error(transparent)]
    Lab(#[from] numapilot_observe::lab::LabError),
    /// A placement that this kernel does not have.
    #[error("{} cannot be placed by {place}; it takes {}", kernel.name(), kernel.places_text())]
    NoSuchPlace {
        /// The kernel.
        kernel: Kernel,
        /// Asked for.
        place: Place,
    },
    /// Too little to work on.
    #[error(
        "{} bytes leave less than a page for each of {threads} threads; raise --size to at least {}",
        Grouped(*.bytes), Grouped(*.least)
    )]
    TooSmall {
        /// Asked for.
        bytes: u64,
        /// Asked for.
        threads: usize,
        /// What would do.
        least: u64,
    },
    /// Not enough threads for its parts.
    #[error("{} needs at least 2 threads; raise --threads", kernel.name())]
    OneThread {
        /// The kernel.
        kernel: Kernel,
    },
    /// More memory than there is.
    #[error(
        "{} needs about {} MiB of memory, but {} MiB are available; lower --size",
        kernel.name(), Grouped(*.needed_bytes >> 20), Grouped(*.available_bytes >> 20)
    )]
    TooLittleMemory {
        /// The kernel.
        kernel: Kernel,
        /// Estimated need.
        needed_bytes: u64,
        /// What the kernel says can be had without swapping.
        available_bytes: u64,
    },
    /// No node with CPUs and memory may be used.
    #[error(
        "this process may use no CPU of a node with memory; widen its cpuset (cpuset.cpus, cpuset.mems)"
    )]
    NoCpu,
    /// Memory that the kernel does not give or place.
    #[error("{what} failed ({cause}); {remedy}")]
    Placement {
        /// What was tried.
        what: &'static str,
        /// The kernel's reason.
        cause: io::Error,
        /// What helps.
        remedy: &'static str,
    },
    /// Pages that stayed where they were.
    #[error(
        "{failed} of {pages} pages could not be moved ({cause}); free memory on the other nodes, or lower --size"
    )]
    Stayed {
        /// How many did not move.
        failed: usize,
        /// Of so many.
        pages: usize,
        /// Why the first one did not.
        cause: io::Error,
    },
    /// The answer is not the one that the independent computation gives.
    #[error(
        "wrong result: checksum {computed:016x} was computed, {expected:016x} is right; this is a defect of the kernel or of the memory of this machine"
    )]
    WrongResult {
        /// By the threads.
        computed: u64,
        /// By the check.
        expected: u64,
    },
}
