//! The calling process and thread: their identity, their rights, and their end.
//!
//! These are system calls without the C library, as in `kernel`. The caller of the allocator may
//! hold one of the C library's locks, and some of this code runs on threads that the C library does
//! not know.

use core::ffi::CStr;

use numapilot_syscall::caller::{process_id, thread_id};
use numapilot_syscall::{Refused, call};

/// Signals, one bit each, the first for number 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signals(u64);

impl Signals {
    /// All signals that can be blocked, including the C library's own.
    pub const ALL: Self = Self(!(Self::one(libc::SIGKILL).0 | Self::one(libc::SIGSTOP).0));

    const fn one(signal: i32) -> Self {
        Self(1 << (signal - 1))
    }

    /// Blocks exactly these for the calling thread; returns those that were blocked before.
    pub fn block(self) -> Self {
        self.change(libc::SIG_SETMASK)
    }

    fn change(self, how: i32) -> Self {
        let mut before = 0_u64;
        let arguments = [
            how as usize,
            &raw const self.0 as usize,
            &raw mut before as usize,
            size_of::<u64>(),
            0,
            0,
        ];
        // SAFETY: the kernel reads one mask and writes the other, each of the named size.
        let _ = unsafe { call(libc::SYS_rt_sigprocmask, arguments) };
        Self(before)
    }
}

/// Ends the process by SIGABRT, whatever the program's handler for that signal. Unlike abort(3) in
/// some C libraries, it takes no lock.
pub fn abort() -> ! {
    let before = Signals(0).change(libc::SIG_BLOCK);
    // If even the C library's signals are blocked, no handler may run: it would run on a thread
    // that the C library does not know.
    if before == Signals::ALL {
        set_default_action();
    }
    Signals::one(libc::SIGABRT).change(libc::SIG_UNBLOCK);
    raise_abort();
    // A handler returned, or the signal is ignored.
    set_default_action();
    raise_abort();
    /// The status that a shell shows for a process that SIGABRT ended.
    const ABORTED: usize = 134;
    loop {
        // SAFETY: takes a number, and does not return.
        let _ = unsafe { call(libc::SYS_exit_group, [ABORTED, 0, 0, 0, 0, 0]) };
    }
}

fn raise_abort() {
    let arguments = [process_id() as usize, thread_id() as usize, libc::SIGABRT as usize, 0, 0, 0];
    // SAFETY: takes numbers.
    let _ = unsafe { call(libc::SYS_tgkill, arguments) };
}

/// Makes SIGABRT end the process.
fn set_default_action() {
    // The kernel's `struct sigaction`: SIG_DFL, no flags, no restorer, an empty mask.
    let action = [0_u64; 4];
    let arguments = [libc::SIGABRT as usize, action.as_ptr() as usize, 0, size_of::<u64>(), 0, 0];
    // SAFETY: the kernel reads one structure of that form, whose mask has the named size.
    let _ = unsafe { call(libc::SYS_rt_sigaction, arguments) };
}

/// Removes all capabilities from the calling thread (capabilities(7)). This does not
/// change whether debuggers may attach to the process and whether it may be dumped.
pub fn drop_capabilities() -> Result<(), Refused> {
    /// Effective, permitted and inheritable; the low halves, then the high ones.
    const NONE: [u32; 6] = [0; 6];
    // _LINUX_CAPABILITY_VERSION_3, and the caller. It is not a constant, because the kernel would
    // write another version to it if it did not know this one, and an emulator checks that it is
    // writable.
    let mut header = [0x2008_0522_u32, 0];
    let arguments = [header.as_mut_ptr() as usize, NONE.as_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the kernel reads the header, and as much data as its version implies.
    unsafe { call(libc::SYS_capset, arguments) }.map(drop)
}

/// Gives the calling thread an empty table of open files of its own, in place of the one that it
/// shares with the process (close_range(2), Linux 5.9).
pub fn leave_files() -> Result<(), Refused> {
    const UNSHARE: usize = 2;
    let arguments = [0, u32::MAX as usize, UNSHARE, 0, 0, 0];
    // SAFETY: takes numbers; files are closed in the new table only.
    unsafe { call(libc::SYS_close_range, arguments) }.map(drop)
}

/// Gives the calling thread directories of its own, in place of those that it shares with the
/// process. setns(2) refuses a process whose directories are shared.
pub fn leave_directories() {
    // SAFETY: takes a number. If it is refused, they stay shared.
    let _ = unsafe { call(libc::SYS_unshare, [libc::CLONE_FS as usize, 0, 0, 0, 0, 0]) };
}

/// Names the calling thread, for programs that list threads; at most 15 bytes.
pub fn name_thread(name: &CStr) {
    const SET_NAME: usize = 15;
    // SAFETY: the kernel reads a terminated string.
    let _ = unsafe { call(libc::SYS_prctl, [SET_NAME, name.as_ptr() as usize, 0, 0, 0, 0]) };
}

/// Lets the calling thread run on these CPUs, one bit each, as far as its cpuset contains them.
///
/// # Safety
/// `mask` is that many readable bytes.
pub unsafe fn allow_cpus(mask: *const u64, bytes: usize) -> Result<(), Refused> {
    // SAFETY: by contract; the kernel only reads.
    unsafe { call(libc::SYS_sched_setaffinity, [0, bytes, mask as usize, 0, 0, 0]) }.map(drop)
}
