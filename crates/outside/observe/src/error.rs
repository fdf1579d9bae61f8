//! Why a target cannot be observed.

use thiserror::Error;

/// Why a target cannot be observed at all. A single missing figure is not an error: its
/// [`crate::Observation`] holds the reason.
#[derive(Debug, Error)]
pub enum ObserveError {
    /// No such process.
    #[error("process {pid} does not exist (any more); check the id with ps")]
    NoProcess {
        /// Its id.
        pid: i32,
    },
    /// A kernel thread.
    #[error(
        "PID {pid} is a kernel thread ({name}): it has no memory of its own, and the kernel \
         decides where it runs; give the PID of a program"
    )]
    KernelThread {
        /// Its id.
        pid: i32,
        /// Its name.
        name: String,
    },
    /// A process of another user.
    #[error(
        "process {pid} belongs to user {owner} and may not be observed by user {me}; run \
         numapilot as that user or as root (CAP_SYS_PTRACE)"
    )]
    NotPermitted {
        /// Its id.
        pid: i32,
        /// Its owner.
        owner: u32,
        /// Effective user id of the caller.
        me: u32,
    },
    /// A process that the kernel protects from others.
    #[error(
        "the kernel protects process {pid}: it has made itself undumpable (prctl \
         PR_SET_DUMPABLE) or lives in another user namespace; name another process, or run \
         numapilot inside that namespace"
    )]
    Protected {
        /// Its id.
        pid: i32,
    },
}
