//! System V shared memory: segments outlive the processes that made them.
//!
//! Source: shmctl(2), sysvipc(7). `/proc/sysvipc/shm` lists the segments.

use std::io;

use crate::check;

/// Removes a shared memory segment by its number. Processes that have it attached keep it until they
/// detach it.
///
/// # Errors
/// `EINVAL` if there is no such segment, `EPERM` if it belongs to another user.
pub fn remove_segment(id: i32) -> io::Result<()> {
    // SAFETY: IPC_RMID ignores the third argument; the rest are integers.
    let result = unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
    check(i64::from(result)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_removed_once() {
        // SAFETY: three integers. The segment is private, and removed below.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, 0o600) };
        if id < 0 {
            println!("skipped: shmget: {}", io::Error::last_os_error());
            return;
        }
        remove_segment(id).unwrap();
        let error = remove_segment(id).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}
