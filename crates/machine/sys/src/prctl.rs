//! Per-process settings.
//!
//! Source: prctl(2), Documentation/admin-guide/mm/transhuge.rst.

use std::io;

use rustix::io::Errno;
use rustix::process::{
    Signal, child_subreaper, getpid, getppid, set_child_subreaper, set_parent_process_death_signal,
};

use crate::check;

/// Whether a process gets transparent huge pages (`PR_SET_THP_DISABLE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThpSwitch {
    /// As the machine is set.
    Enabled,
    /// Only in memory for which it requests them with `MADV_HUGEPAGE`
    /// (`PR_THP_DISABLE_EXCEPT_ADVISED`, Linux 6.18).
    ExceptAdvised,
    /// Nowhere.
    Disabled,
}

/// `PR_THP_DISABLE_EXCEPT_ADVISED`.
const EXCEPT_ADVISED: u64 = 1 << 1;

impl ThpSwitch {
    /// The arguments of `PR_SET_THP_DISABLE`: whether to disable, and the flags.
    pub(crate) fn raw(self) -> (bool, u64) {
        match self {
            Self::Enabled => (false, 0),
            Self::ExceptAdvised => (true, EXCEPT_ADVISED),
            Self::Disabled => (true, 0),
        }
    }

    /// What `PR_GET_THP_DISABLE` returns.
    pub(crate) fn of_raw(raw: u64) -> Self {
        match raw {
            0 => Self::Enabled,
            1 => Self::Disabled,
            // Bit 1 is EXCEPT_ADVISED, the only flag.
            _ => Self::ExceptAdvised,
        }
    }
}

/// Sets the switch of the caller and its future children.
///
/// # Errors
/// `EINVAL` for [`ThpSwitch::ExceptAdvised`] before Linux 6.18; `EPERM`, `ENOSYS` or
/// `EINVAL` under a seccomp filter.
pub fn set_thp_switch(switch: ThpSwitch) -> io::Result<()> {
    let (disable, flags) = switch.raw();
    // SAFETY: PR_SET_THP_DISABLE takes integers only; the unused ones must be 0.
    check(libc::c_long::from(unsafe {
        libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_ulong::from(disable), flags, 0, 0)
    }))
    .map(drop)
}

/// The switch of the caller.
///
/// # Errors
/// `EPERM`, `ENOSYS` or `EINVAL` under a seccomp filter.
pub fn thp_switch() -> io::Result<ThpSwitch> {
    // SAFETY: PR_GET_THP_DISABLE takes no argument; the unused ones must be 0.
    check(libc::c_long::from(unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) }))
        .map(|raw| ThpSwitch::of_raw(raw.cast_unsigned()))
}

/// Makes this process, instead of init, the parent of descendants whose parent ends
/// (`PR_SET_CHILD_SUBREAPER`). Programs that fork twice to become daemons stay its descendants.
///
/// # Errors
/// Those of a seccomp filter.
pub fn adopt_orphans() -> io::Result<()> {
    // Any process id switches it on.
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Undoes [`adopt_orphans`]. The processes adopted so far stay children of this process.
///
/// # Errors
/// Those of a seccomp filter.
pub fn leave_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(None)?)
}

/// Whether orphaned descendants become children of this process.
#[must_use]
pub fn adopts_orphans() -> bool {
    child_subreaper().is_ok_and(|adopts| adopts.is_some())
}

/// Lets the kernel send `signal` to the caller when the thread that started it ends. `parent` is
/// the process of that thread.
///
/// # Errors
/// `EINVAL` for a real-time signal; `ESRCH` if the thread has already ended, because then no signal would arrive.
pub fn end_with_parent(parent: u32, signal: i32) -> io::Result<()> {
    let signal = Signal::from_named_raw(signal).ok_or(Errno::INVAL)?;
    set_parent_process_death_signal(Some(signal))?;
    if getppid().map(|pid| pid.as_raw_pid().unsigned_abs()) != Some(parent) {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thp_switch_is_read_back() {
        let before = thp_switch().unwrap();
        for switch in [ThpSwitch::Disabled, ThpSwitch::ExceptAdvised, ThpSwitch::Enabled] {
            match set_thp_switch(switch) {
                Ok(()) => assert_eq!(thp_switch().unwrap(), switch),
                Err(error) => {
                    assert_eq!(switch, ThpSwitch::ExceptAdvised, "{error}");
                    println!("skipped: {switch:?} needs Linux 6.18");
                }
            }
        }
        set_thp_switch(before).unwrap();
    }
}
