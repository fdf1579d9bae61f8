//! Files without a name, and descriptors that child processes inherit.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::LabError;

/// The path under which a process that inherits a descriptor can open its file.
pub fn path_of(file: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Makes a descriptor inheritable by programs that this process starts.
pub fn inherit(file: &impl AsFd) -> Result<(), LabError> {
    rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty())
        .map_err(LabError::host("hand a file down"))
}

/// An empty file in memory that child processes inherit.
pub fn memory(name: &CStr) -> Result<File, LabError> {
    let file = memfd_create(name, MemfdFlags::empty());
    file.map(File::from).map_err(LabError::host("make a file in memory"))
}

/// Two connected sockets: one for this process, and one for child processes.
pub fn pair() -> Result<(UnixStream, OwnedFd), LabError> {
    let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let (ours, theirs) = pair.map_err(LabError::host("make a pair of sockets"))?;
    inherit(&theirs)?;
    Ok((ours.into(), theirs))
}
