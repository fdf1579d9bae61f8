//! System calls that preserve the program's `errno`.

use core::sync::atomic::AtomicU64;

use libc::{c_int, c_long};
use numapilot_bind::cpus::CpuMask;
use numapilot_bind::running_threads::{OWN_STAT, STAT_BYTES, running_threads};

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

/// The errno of a system call; 0 when it succeeded.
pub fn errno_of(call: impl FnOnce() -> c_long) -> u32 {
    keeping_errno(|| match call() {
        // SAFETY: see `keeping_errno`.
        -1 => unsafe { *libc::__errno_location() }.unsigned_abs(),
        _ => 0,
    })
}

/// Sleeps while the low half of a word that is shared with other processes has this value, at most
/// for some seconds; it may wake up early. Returns false if it cannot sleep, because a filter
/// forbids futex(2).
pub fn wait_while(word: &AtomicU64, number: u32, seconds: u32) -> bool {
    let low = core::ptr::from_ref(word).cast::<u32>();
    let limit = libc::timespec { tv_sec: seconds.into(), tv_nsec: 0 };
    // SAFETY: futex(2) reads an aligned half of a live word, and the live time limit.
    let errno = errno_of(|| unsafe {
        libc::syscall(libc::SYS_futex, low, libc::FUTEX_WAIT, number, &raw const limit)
    });
    matches!(errno.cast_signed(), 0 | libc::EAGAIN | libc::EINTR | libc::ETIMEDOUT)
}

/// Thread id of the caller.
pub fn gettid() -> c_int {
    // SAFETY: takes no argument and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as c_int }
}

/// Process id of the caller. In a child of `vfork` this is not the owner of the memory.
pub fn getpid() -> c_int {
    // SAFETY: takes no argument and cannot fail.
    unsafe { libc::getpid() }
}

/// Whether a process exists, also one of another user.
pub fn is_alive(pid: u32) -> bool {
    let Ok(pid) = c_int::try_from(pid) else { return false };
    keeping_errno(|| {
        // SAFETY: signal 0 sends nothing; a positive number names one process.
        let asked = unsafe { libc::kill(pid, 0) };
        // SAFETY: see `keeping_errno`.
        asked == 0 || unsafe { *libc::__errno_location() } != libc::ESRCH
    })
}

/// Whether the caller is the only running thread of this process. False if `/proc` does not show it.
pub fn is_only_thread() -> bool {
    let mut stat = [0_u8; STAT_BYTES];
    let length = keeping_errno(|| {
        // SAFETY: the path is a C string.
        let file = unsafe { libc::open(OWN_STAT.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
        // SAFETY: the buffer is live and has the stated length; a failed open yields an error.
        let length = unsafe { libc::read(file, stat.as_mut_ptr().cast(), stat.len()) };
        // SAFETY: opened above and not used elsewhere; -1 is refused.
        unsafe { libc::close(file) };
        usize::try_from(length).unwrap_or(0)
    });
    running_threads(&stat[..length]) == Some(1)
}

/// Whether `tid` is a thread of this process.
pub fn is_own_thread(tid: c_int) -> bool {
    keeping_errno(|| {
        // SAFETY: signal 0 sends nothing.
        unsafe { libc::syscall(libc::SYS_tgkill, getpid(), tid, 0) == 0 }
    })
}

/// Sets the affinity of the calling thread. Returns whether the kernel accepted it.
pub fn set_affinity(mask: &CpuMask) -> bool {
    let words = mask.as_words();
    // SAFETY: pointer and length in bytes describe the mask, which is only read.
    let result: c_long = keeping_errno(|| unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(words), words.as_ptr())
    });
    result == 0
}

/// The affinity of the calling thread, or `None` if the kernel has more CPUs than the mask.
pub fn affinity() -> Option<CpuMask> {
    let mut mask = CpuMask::new();
    let words = mask.as_mut_words();
    // SAFETY: pointer and length in bytes describe the mask, which outlives the call.
    let result: c_long = keeping_errno(|| unsafe {
        libc::syscall(
            libc::SYS_sched_getaffinity,
            0,
            size_of_val::<[u64]>(words),
            words.as_mut_ptr(),
        )
    });
    (result > 0).then_some(mask)
}
