//! The calling process and thread: who they are, what they may, and how they end.
//!
//! System calls without the C library, as in `kernel`: whoever allocates may hold one of the C
//! library's locks, and some of this runs on threads that the C library does not know.

use core::ffi::CStr;

use crate::os::kernel::{Refused, call};

#[cfg(target_arch = "x86_64")]
mod number {
    pub const SIGACTION: usize = 13;
    pub const SIGPROCMASK: usize = 14;
    pub const GETPID: usize = 39;
    pub const CAPSET: usize = 126;
    pub const PRCTL: usize = 157;
    pub const GETTID: usize = 186;
    pub const SCHED_SETAFFINITY: usize = 203;
    pub const EXIT_GROUP: usize = 231;
    pub const TGKILL: usize = 234;
    pub const UNSHARE: usize = 272;
    pub const CLOSE_RANGE: usize = 436;
}

#[cfg(target_arch = "aarch64")]
mod number {
    pub const CAPSET: usize = 91;
    pub const EXIT_GROUP: usize = 94;
    pub const UNSHARE: usize = 97;
    pub const SCHED_SETAFFINITY: usize = 122;
    pub const TGKILL: usize = 131;
    pub const SIGACTION: usize = 134;
    pub const SIGPROCMASK: usize = 135;
    pub const PRCTL: usize = 167;
    pub const GETPID: usize = 172;
    pub const GETTID: usize = 178;
    pub const CLOSE_RANGE: usize = 436;
}

/// The calling process.
pub fn id() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { call(number::GETPID, [0; 6]) }.map_or(0, |id| id as i32)
}

/// The calling thread.
pub fn thread_id() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { call(number::GETTID, [0; 6]) }.map_or(0, |id| id as i32)
}

/// Signals, a bit each, the first for number 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signals(u64);

impl Signals {
    /// Those that can be blocked, the C library's own among them.
    pub const ALL: Self = Self(!(Self::one(libc::SIGKILL).0 | Self::one(libc::SIGSTOP).0));

    const fn one(signal: i32) -> Self {
        Self(1 << (signal - 1))
    }

    /// Blocks exactly these for the calling thread; those that were blocked before.
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
        // SAFETY: the kernel reads one mask and writes the other, each of the size that is named.
        let _ = unsafe { call(number::SIGPROCMASK, arguments) };
        Self(before)
    }
}

/// Ends the process by SIGABRT, as abort(3), which takes a lock in some C libraries: whatever the
/// program has made of the signal, and whoever calls.
pub fn abort() -> ! {
    let before = Signals(0).change(libc::SIG_BLOCK);
    // Where even the C library's signals are blocked no handler may run: it would find a thread
    // that the C library does not know.
    if before == Signals::ALL {
        set_default_action();
    }
    Signals::one(libc::SIGABRT).change(libc::SIG_UNBLOCK);
    raise_abort();
    // A handler returned, or the signal is ignored.
    set_default_action();
    raise_abort();
    /// What a shell shows of a process that SIGABRT ended.
    const ABORTED: usize = 134;
    loop {
        // SAFETY: takes a number, and does not return.
        let _ = unsafe { call(number::EXIT_GROUP, [ABORTED, 0, 0, 0, 0, 0]) };
    }
}

fn raise_abort() {
    let arguments = [id() as usize, thread_id() as usize, libc::SIGABRT as usize, 0, 0, 0];
    // SAFETY: takes numbers.
    let _ = unsafe { call(number::TGKILL, arguments) };
}

/// Makes SIGABRT end the process.
fn set_default_action() {
    // The kernel's `struct sigaction`: SIG_DFL, no flags, no restorer, an empty mask.
    let action = [0_u64; 4];
    let arguments = [libc::SIGABRT as usize, action.as_ptr() as usize, 0, size_of::<u64>(), 0, 0];
    // SAFETY: the kernel reads one structure of that form, whose mask has the size that is named.
    let _ = unsafe { call(number::SIGACTION, arguments) };
}

/// Takes all capabilities from the calling thread (capabilities(7)). To give some up leaves the
/// process as open to debuggers and dumps as it was.
pub fn drop_capabilities() -> Result<(), Refused> {
    /// Effective, permitted and inheritable, the low halves and the high ones.
    const NONE: [u32; 6] = [0; 6];
    // _LINUX_CAPABILITY_VERSION_3, and the caller. Not a constant: the kernel would write another
    // version there if it did not know this one, and an emulator asks whether it could.
    let mut header = [0x2008_0522_u32, 0];
    let arguments = [header.as_mut_ptr() as usize, NONE.as_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the kernel reads the header, and as much data as its version says.
    unsafe { call(number::CAPSET, arguments) }.map(drop)
}

/// Gives the calling thread open files of its own, none, instead of those that it shares with the
/// process (close_range(2), Linux 5.9).
pub fn leave_files() -> Result<(), Refused> {
    const UNSHARE: usize = 2;
    let arguments = [0, u32::MAX as usize, UNSHARE, 0, 0, 0];
    // SAFETY: takes numbers; files are closed in the new table only.
    unsafe { call(number::CLOSE_RANGE, arguments) }.map(drop)
}

/// Gives the calling thread directories of its own, instead of those that it shares with the
/// process: setns(2) refuses a process whose directories are shared.
pub fn leave_directories() {
    // SAFETY: takes a number. Refused, they stay shared.
    let _ = unsafe { call(number::UNSHARE, [libc::CLONE_FS as usize, 0, 0, 0, 0, 0]) };
}

/// Names the calling thread, for those who list threads; at most 15 bytes.
pub fn name_thread(name: &CStr) {
    const SET_NAME: usize = 15;
    // SAFETY: the kernel reads a string with its end.
    let _ = unsafe { call(number::PRCTL, [SET_NAME, name.as_ptr() as usize, 0, 0, 0, 0]) };
}

/// Lets the calling thread run on these CPUs, a bit each, as far as its cpuset has them.
///
/// # Safety
/// `mask` is that many bytes that can be read.
pub unsafe fn allow_cpus(mask: *const u64, bytes: usize) -> Result<(), Refused> {
    // SAFETY: by contract; the kernel only reads.
    unsafe { call(number::SCHED_SETAFFINITY, [0, bytes, mask as usize, 0, 0, 0]) }.map(drop)
}
