//! Statistics and the heap profile without a call by the program: when it ends, and when a signal
//! requests them.
//!
//! Nothing of this runs unless a variable requests it. The program may be anywhere in the allocator
//! when the signal handler runs. So the handler starts a thread that writes the statistics and then
//! ends. If it may start none, the next slow path writes them.

use core::ffi::{CStr, c_int};
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use numapilot_bind::env::{ALLOC_PROFILE, ALLOC_STATS_FILE, ALLOC_STATS_SIGNAL};

use numapilot_syscall::file::status;

use crate::config::{self, Format};
use crate::os::bare_thread::BareThread;
use crate::os::output::complain;
use crate::os::{file, kernel};
use crate::sampling;
use crate::telemetry::{profile, usage};

/// There is no request, or everything was written.
const QUIET: u32 = 0;
/// A signal has requested statistics.
const ASKED: u32 = 1;
/// The thread writes the requested statistics.
const WRITING: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(QUIET);
/// It lives for one request and has the rights of the thread that the signal interrupted.
static WRITER: BareThread = BareThread::new(c"numapilot-stats", answer_all);
/// A second descriptor of standard error, because many programs close theirs before they end, and
/// the file that it referred to.
static ERRORS: AtomicI32 = AtomicI32::new(-1);
static ERRORS_DEVICE: AtomicU64 = AtomicU64::new(0);
static ERRORS_FILE: AtomicU64 = AtomicU64::new(0);

/// Prepares to respond to a signal and to write when the program ends, if that was requested.
/// Called once, when the library is loaded.
pub fn prepare() {
    let config = config::get();
    if config.stats.is_none() && config.stats_signal.is_none() {
        return;
    }
    if config.stats_file.is_none() {
        keep_errors();
    }
    if let Some(signal) = config.stats_signal {
        watch(signal);
    }
}

/// The program ends: writes the requested statistics.
pub fn finish() {
    if let Some(format) = config::get().stats {
        write(format);
    }
    write_profile();
}

/// Makes a signal request statistics.
fn watch(signal: c_int) {
    // SAFETY: all zeroes is an action without flags and with an empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = asked as extern "C" fn(c_int) as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler touches words of its own and makes system calls.
    if unsafe { libc::sigaction(signal, &raw const action, null_mut()) } != 0 {
        complain(format_args!("{ALLOC_STATS_SIGNAL}={signal} is ignored: no such signal"));
    }
}

extern "C" fn asked(_: c_int) {
    /// A thread that found nothing more to write ends within this time.
    const END_MS: u32 = 100;
    let before = STATE.swap(ASKED, Ordering::AcqRel);
    if !config::get().background_thread || (before != QUIET && WRITER.is_running()) {
        return;
    }
    // A thread that still runs either sees the new state or is about to end.
    for _ in 0..END_MS {
        if !WRITER.is_running() || STATE.load(Ordering::Acquire) != ASKED {
            break;
        }
        kernel::sleep_ms(1);
    }
    WRITER.start();
}

/// The work of the thread.
fn answer_all() {
    while change(ASKED, WRITING) {
        answer();
        change(WRITING, QUIET);
    }
}

/// Writes what a signal requested, if no other thread will.
#[inline]
pub fn answer_if_alone() {
    if STATE.load(Ordering::Relaxed) == ASKED && !WRITER.is_running() {
        answer_here();
    }
}

#[cold]
fn answer_here() {
    if change(ASKED, QUIET) {
        answer();
    }
}

/// Changes the state from one value to another; returns whether it had the first.
fn change(from: u32, to: u32) -> bool {
    STATE.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

fn answer() {
    // With a profile, tables are written only if they are requested explicitly.
    if config::get().stats.is_some() || !sampling::is_wanted() {
        write(config::get().stats.unwrap_or(Format::Text));
    }
    write_profile();
}

/// Notes that no thread writes in the child of a fork.
pub fn forget() {
    WRITER.forget();
}

fn write(format: Format) {
    match config::get().stats_file {
        None => {
            if let Some(errors) = errors() {
                let _ = usage::write_to(errors, format);
            }
        }
        Some(path) => {
            put(ALLOC_STATS_FILE, path, |file| usage::write_to(file, format));
        }
    }
}

fn write_profile() {
    if let Some(path) = config::get().profile.filter(|_| sampling::is_running()) {
        put(ALLOC_PROFILE, path, profile::write_to);
    }
}

/// Replaces the file that a variable names.
fn put(variable: &str, path: &CStr, write: impl FnOnce(c_int) -> Result<(), i32>) {
    if let Err(number) = file::replace(path, write) {
        let name = path.to_str().unwrap_or("(not text)");
        complain(format_args!(
            "{variable}={name}: cannot be written (error {number}); is the directory there, and \
             may you write to it?"
        ));
    }
}

/// Keeps standard error open for the end.
fn keep_errors() {
    let Some((device, file)) = identity(libc::STDERR_FILENO) else { return };
    // SAFETY: makes a descriptor; the result shows whether that succeeded. Its number is far from
    // those that shells and programs choose themselves.
    let kept = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, 100) };
    ERRORS.store(kept, Ordering::Relaxed);
    ERRORS_DEVICE.store(device, Ordering::Relaxed);
    ERRORS_FILE.store(file, Ordering::Relaxed);
}

/// The descriptor that was kept, unless the program closed it and it now refers to another file.
fn errors() -> Option<i32> {
    let kept = ERRORS.load(Ordering::Relaxed);
    let was = (ERRORS_DEVICE.load(Ordering::Relaxed), ERRORS_FILE.load(Ordering::Relaxed));
    (identity(kept)? == was).then_some(kept)
}

/// Device and inode number of an open file.
fn identity(descriptor: i32) -> Option<(u64, u64)> {
    let status = status(descriptor).ok()?;
    Some((status.st_dev, status.st_ino))
}
