//! The errors, with their remedies.

use core::fmt;

/// Why data could not be replicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The kernel has no address space or memory for the copies.
    NoMemory {
        /// Bytes of all copies.
        bytes: usize,
        /// The number of copies.
        copies: usize,
    },
    /// The copies would not fit into any address space.
    TooLarge,
    /// A file cannot be opened or read.
    File {
        /// The error number.
        errno: i32,
    },
    /// The source is not a regular file.
    NotAFile,
    /// The file is open for writing, so a copy would be out of date.
    Written,
    /// The kernel refuses a lease on the file.
    NoLease {
        /// The error number.
        errno: i32,
    },
    /// The thread that watches the file cannot be started.
    NoThread {
        /// The error number.
        errno: i32,
    },
    /// Memory cannot be moved to another node.
    NotRehomed {
        /// The error number.
        errno: i32,
    },
}

impl Error {
    /// The error number that describes it best.
    #[must_use]
    pub fn errno(self) -> i32 {
        match self {
            Self::NoMemory { .. } => libc::ENOMEM,
            Self::TooLarge => libc::EOVERFLOW,
            Self::NotAFile => libc::EINVAL,
            Self::Written => libc::ETXTBSY,
            Self::File { errno }
            | Self::NoLease { errno }
            | Self::NoThread { errno }
            | Self::NotRehomed { errno } => errno,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMemory { bytes, copies } => write!(
                f,
                "no memory for {copies} copies of {} bytes; allow fewer nodes (cpuset.mems), \
                 or raise the limit (ulimit -v, cgroup, vm.overcommit_memory)",
                bytes / (*copies).max(1)
            ),
            Self::TooLarge => {
                f.write_str("the copies do not fit into the address space; split the data")
            }
            Self::File { errno } => {
                write!(f, "the file cannot be read (error {errno}); check its path and its mode")
            }
            Self::NotAFile => f.write_str("only regular files can be copied; give a regular file"),
            Self::Written => f.write_str(
                "the file is open for writing, so copies would be out of date; \
                 try again when it is closed",
            ),
            Self::NoLease { errno: libc::EACCES } => f.write_str(
                "only the owner of a file gets a lease; run as its owner, \
                 or with CAP_LEASE",
            ),
            Self::NoLease { errno } => write!(
                f,
                "the file system gives no lease (error {errno}), so changes would not be noticed; \
                 copy the file to ext4, xfs, btrfs or tmpfs"
            ),
            Self::NoThread { errno } => write!(
                f,
                "the thread that watches the file cannot be started (error {errno}); raise the limit (ulimit -u)"
            ),
            Self::NotRehomed { errno: libc::EINVAL } => f.write_str(
                "only writable memory can be moved, and only by Linux 5.14 or later; \
                 leave out read-only mappings",
            ),
            Self::NotRehomed { errno } => write!(
                f,
                "memory cannot be moved (error {errno}); allow madvise and move_pages \
                 (a container's seccomp profile may forbid them)"
            ),
        }
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_cause_and_remedy() {
        let text = Error::NoMemory { bytes: 4096, copies: 4 }.to_string();
        assert!(text.starts_with("no memory for 4 copies of 1024 bytes; "), "{text}");
        for error in [
            Error::TooLarge,
            Error::NotAFile,
            Error::Written,
            Error::NoLease { errno: libc::EACCES },
            Error::NotRehomed { errno: libc::EINVAL },
        ] {
            assert!(error.to_string().contains("; "), "{error}");
            assert!(error.errno() > 0);
        }
    }
}
