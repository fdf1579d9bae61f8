//! Per-process switches that survive `execve`.
//!
//! Source: prctl(2), Documentation/admin-guide/mm/transhuge.rst.

use std::io;

use crate::check;

/// Takes transparent huge pages away from the caller and its future children, or gives
/// them back.
///
/// # Errors
/// `EINVAL` on kernels without transparent huge pages.
pub fn set_thp_disable(disable: bool) -> io::Result<()> {
    // SAFETY: PR_SET_THP_DISABLE takes integers only; the unused ones must be 0.
    check(libc::c_long::from(unsafe {
        libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_ulong::from(disable), 0, 0, 0)
    }))
    .map(drop)
}

/// Whether transparent huge pages are switched off for the caller.
///
/// # Errors
/// `EINVAL` on kernels without transparent huge pages.
pub fn thp_disabled() -> io::Result<bool> {
    // SAFETY: PR_GET_THP_DISABLE takes no argument; the unused ones must be 0.
    check(libc::c_long::from(unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) }))
        .map(|v| v != 0)
}

/// Has the caller sent `signal` when the thread ends that started it. `parent` is the process
/// of that thread.
///
/// # Errors
/// `ESRCH` when it has ended already: then nothing would end the caller any more.
pub fn end_with_parent(parent: u32, signal: i32) -> io::Result<()> {
    let signal = libc::c_ulong::from(signal.unsigned_abs());
    // SAFETY: PR_SET_PDEATHSIG takes one integer.
    check(libc::c_long::from(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) }))?;
    // SAFETY: getppid takes nothing and cannot fail.
    if u32::try_from(unsafe { libc::getppid() }) != Ok(parent) {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thp_switch_is_read_back() {
        let before = thp_disabled().unwrap();
        set_thp_disable(!before).unwrap();
        assert_eq!(thp_disabled().unwrap(), !before);
        set_thp_disable(before).unwrap();
    }
}
