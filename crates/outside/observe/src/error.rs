//! Why a target cannot be observed.

use thiserror::Error;

/// Why a target cannot be observed at all. A single figure that cannot be had is no
/// error: it is `None` with a reason in its [`crate::Observation`].
#[derive(Debug, Error)]
pub enum ObserveError {
    /// No such process.
    #[error("process {pid} does not exist (any more); check the number with ps")]
    NoProcess {
        /// The number asked for.
        pid: i32,
    },
    /// A thread of the kernel's own.
    #[error(
        "PID {pid} is a kernel thread ({name}): it has no memory of its own, and the kernel \
         decides where it runs; give the PID of a program"
    )]
    KernelThread {
        /// The number asked for.
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
        /// The number asked for.
        pid: i32,
        /// Its owner.
        owner: u32,
        /// Effective user id of the caller.
        me: u32,
    },
    /// A process that the kernel shows to nobody else.
    #[error(
        "the kernel protects process {pid}: it has made itself undumpable (prctl \
         PR_SET_DUMPABLE) or lives in another user namespace; observe it from inside that \
         namespace, or the whole machine (numapilot stat -a, numapilot top without -p)"
    )]
    Protected {
        /// The number asked for.
        pid: i32,
    },
}
