//! Files to read.

use core::ffi::CStr;
use core::mem::MaybeUninit;

use crate::{Refused, call};

/// In place of a directory's descriptor: paths are relative to the working directory.
pub const CURRENT_DIRECTORY: usize = libc::AT_FDCWD as usize;

/// An open file, closed when dropped.
#[derive(Debug)]
pub struct File(i32);

impl File {
    /// Opens a file for reading. A file that would make the caller wait (a FIFO, a lease of another
    /// process) is refused instead.
    ///
    /// # Errors
    /// The file does not exist, may not be read, or would make the caller wait.
    pub fn open(path: &CStr) -> Result<Self, Refused> {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
        let arguments = [CURRENT_DIRECTORY, path.as_ptr() as usize, flags as usize, 0, 0, 0];
        // SAFETY: a terminated string.
        unsafe { call(libc::SYS_openat, arguments) }.map(|file| Self(file as i32))
    }

    /// The descriptor.
    #[must_use]
    pub fn descriptor(&self) -> i32 {
        self.0
    }

    /// Reads the next bytes; returns their number, 0 at the end and for an empty buffer.
    ///
    /// # Errors
    /// The kernel cannot read the file.
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize, Refused> {
        let arguments = [self.0 as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0];
        // SAFETY: the kernel writes at most the length of the buffer.
        retried(|| unsafe { call(libc::SYS_read, arguments) })
    }

    /// Reads bytes from an offset on; returns their number, 0 at the end and for an empty buffer.
    ///
    /// # Errors
    /// The kernel cannot read the file.
    pub fn read_at(&self, offset: usize, buffer: &mut [u8]) -> Result<usize, Refused> {
        let start = buffer.as_mut_ptr() as usize;
        let arguments = [self.0 as usize, start, buffer.len(), offset, 0, 0];
        // SAFETY: the kernel writes at most the length of the buffer.
        retried(|| unsafe { call(libc::SYS_pread64, arguments) })
    }
}

/// The status of an open file.
///
/// # Errors
/// The descriptor is not open.
pub fn status(descriptor: i32) -> Result<libc::stat, Refused> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    let arguments = [descriptor as usize, status.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the kernel fills the structure, which has the C library's layout on these
    // architectures.
    unsafe { call(libc::SYS_fstat, arguments).map(|_| status.assume_init()) }
}

/// Closes a descriptor of the caller's, which must not be used again.
pub fn close(descriptor: i32) {
    // SAFETY: takes a number; a descriptor that is not open is refused.
    let _ = unsafe { call(libc::SYS_close, [descriptor as usize, 0, 0, 0, 0, 0]) };
}

/// Repeats a call that a signal has interrupted.
fn retried(call: impl Fn() -> Result<usize, Refused>) -> Result<usize, Refused> {
    loop {
        match call() {
            Err(Refused(libc::EINTR)) => {}
            result => return result,
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        close(self.0);
    }
}

/// Fills the buffer with calls of `read`, which gets the number of bytes so far and the rest of the
/// buffer, until a call adds nothing. Returns the number of bytes.
///
/// # Errors
/// That of the call that fails.
pub fn fill(
    buffer: &mut [u8],
    mut read: impl FnMut(usize, &mut [u8]) -> Result<usize, Refused>,
) -> Result<usize, Refused> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match read(filled, rest)? {
            0 => break,
            bytes => filled += bytes,
        }
    }
    Ok(filled)
}

/// Reads a file from its start into `buffer`; returns the part that was filled, which is the
/// beginning of the file if the buffer is too small for all of it.
///
/// # Errors
/// The file does not exist or cannot be read.
pub fn read_file<'a>(path: &CStr, buffer: &'a mut [u8]) -> Result<&'a [u8], Refused> {
    let file = File::open(path)?;
    let filled = fill(buffer, |_, rest| file.read(rest))?;
    Ok(&buffer[..filled])
}

#[cfg(test)]
mod tests {
    use super::*;

    extern crate std;

    #[test]
    fn files_are_read_as_far_as_the_buffer_goes() {
        let whole = std::fs::read("/proc/self/cmdline").unwrap();
        let mut buffer = [0; 4096];
        assert_eq!(read_file(c"/proc/self/cmdline", &mut buffer).unwrap(), whole);
        assert_eq!(read_file(c"/proc/self/cmdline", &mut buffer[..3]).unwrap(), &whole[..3]);
        let file = File::open(c"/proc/self/cmdline").unwrap();
        let read = file.read_at(2, &mut buffer[..2]).unwrap();
        assert_eq!(buffer[..read], whole[2..4]);
    }

    #[test]
    fn a_missing_file_and_a_directory_are_refused() {
        let mut buffer = [0; 8];
        assert_eq!(read_file(c"/proc/self/none", &mut buffer), Err(Refused(libc::ENOENT)));
        assert_eq!(read_file(c"/proc/self", &mut buffer), Err(Refused(libc::EISDIR)));
    }

    #[test]
    fn the_status_is_that_of_the_file() {
        use std::os::unix::fs::MetadataExt;
        let file = File::open(c"/proc/self/status").unwrap();
        let expected = std::fs::metadata("/proc/self/status").unwrap();
        let found = status(file.descriptor()).unwrap();
        assert_eq!((found.st_ino, found.st_mode), (expected.ino(), expected.mode()));
        assert_eq!(status(-1).map(|found| found.st_ino), Err(Refused(libc::EBADF)));
    }

    #[test]
    fn a_file_is_closed() {
        // No other test opens this file.
        let file = File::open(c"/proc/self/limits").unwrap();
        let path = std::format!("/proc/self/fd/{}", file.descriptor());
        let is_open = || std::fs::read_link(&path).is_ok_and(|to| to.ends_with("limits"));
        assert!(is_open());
        drop(file);
        assert!(!is_open());
    }
}
