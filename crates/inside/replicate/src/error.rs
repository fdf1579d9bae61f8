//! What can fail, with the remedy.

use core::fmt;

/// Why there are no copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The kernel has no address space or memory for the copies.
    NoMemory {
        /// Bytes of all copies.
        bytes: usize,
        /// How many there were to be.
        copies: usize,
    },
    /// The copies would not fit into any address space.
    TooLarge,
    /// A file cannot be opened or read.
    File {
        /// The error number.
        errno: i32,
    },
    /// What is to be copied is not a regular file.
    NotAFile,
    /// The file is open for writing, so that a copy would be out of date.
    Written,
    /// The kernel does not let this process watch over the file.
    NoLease {
        /// The error number.
        errno: i32,
    },
    /// No thread can be started that watches over the file.
    NoThread {
        /// The error number.
        errno: i32,
    },
    /// Memory cannot be brought home.
    NotRehomed {
        /// The error number.
        errno: i32,
    },
}

impl Error {
    /// The error number that says most of it.
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
            Self::NotAFile => f.write_str("only regular files are copied; name one"),
            Self::Written => f.write_str(
                "the file is open for writing, so that copies would be out of date; \
                 try again when the writer has closed it",
            ),
            Self::NoLease { errno: libc::EACCES } => f.write_str(
                "a lease is given to the owner of a file only; run as its owner, \
                 or with CAP_LEASE",
            ),
            Self::NoLease { errno } => write!(
                f,
                "the file system gives no lease (error {errno}), so that nobody would tell of a \
                 change; copy the file to ext4, xfs, btrfs or tmpfs"
            ),
            Self::NoThread { errno } => write!(
                f,
                "no thread to watch over the file (error {errno}); raise the limit (ulimit -u)"
            ),
            Self::NotRehomed { errno: libc::EINVAL } => f.write_str(
                "only writable memory is brought home, and by Linux 5.14 or later; \
                 leave out read-only mappings",
            ),
            Self::NotRehomed { errno } => write!(
                f,
                "memory cannot be brought home (error {errno}); allow madvise and move_pages \
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
