//! System calls that preserve the program's `errno`.

use core::sync::atomic::{AtomicU32, AtomicU64};

use libc::c_int;
use numapilot_bind::cpus::CpuMask;
use numapilot_bind::running_threads::{OWN_STAT, STAT_BYTES, running_threads};
use numapilot_syscall::file::read_file;
use numapilot_syscall::futex::{self, Scope};
use numapilot_syscall::{Refused, call, caller};

/// Runs `work` and restores `errno`, which the program may read after any of our calls.
pub fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the location is valid for the calling thread for as long as it lives.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let result = work();
    // SAFETY: as above.
    unsafe { *errno = before };
    result
}

/// Sleeps while the low half of a word that is shared with other processes has this value, at most
/// for some seconds; it may wake up early. Returns false if it cannot sleep, because a filter
/// forbids futex(2).
pub fn wait_while(word: &AtomicU64, number: u32, seconds: u32) -> bool {
    let low = core::ptr::from_ref(word).cast::<AtomicU32>();
    futex::wait(low, number, Scope::Shared, Some(seconds)).is_ok()
}

/// Whether a process exists, also one of another user.
pub fn is_alive(pid: u32) -> bool {
    let Ok(pid) = usize::try_from(pid) else { return false };
    if pid == 0 || pid > i32::MAX as usize {
        return false;
    }
    // SAFETY: signal 0 sends nothing; a positive number names one process.
    let asked = unsafe { call(libc::SYS_kill, [pid, 0, 0, 0, 0, 0]) };
    asked != Err(Refused(libc::ESRCH))
}

/// Whether the caller is the only running thread of this process. False if `/proc` does not show it.
pub fn is_only_thread() -> bool {
    let mut stat = [0_u8; STAT_BYTES];
    read_file(OWN_STAT, &mut stat).is_ok_and(|stat| running_threads(stat) == Some(1))
}

/// Whether `tid` is a thread of this process.
pub fn is_own_thread(tid: c_int) -> bool {
    let (process, thread) = (caller::process_id() as usize, tid as usize);
    // SAFETY: signal 0 sends nothing.
    unsafe { call(libc::SYS_tgkill, [process, thread, 0, 0, 0, 0]) }.is_ok()
}

/// Sets the affinity of the calling thread. Returns whether the kernel accepted it.
pub fn set_affinity(mask: &CpuMask) -> bool {
    let words = mask.as_words();
    let arguments = [0, size_of_val(words), words.as_ptr() as usize, 0, 0, 0];
    // SAFETY: pointer and length in bytes describe the mask, which is only read.
    unsafe { call(libc::SYS_sched_setaffinity, arguments) }.is_ok()
}

/// The affinity of the calling thread, or `None` if the kernel has more CPUs than the mask.
pub fn affinity() -> Option<CpuMask> {
    let mut mask = CpuMask::new();
    let words = mask.as_mut_words();
    let arguments = [0, size_of_val::<[u64]>(words), words.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: pointer and length in bytes describe the mask, which outlives the call.
    unsafe { call(libc::SYS_sched_getaffinity, arguments) }.is_ok().then_some(mask)
}
