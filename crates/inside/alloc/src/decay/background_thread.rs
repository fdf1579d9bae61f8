//! The background thread: returns idle memory while the program does something else.
//!
//! It starts when there is much to return, checks ten times a second, and ends when nothing is
//! left. Without it, only threads that allocate return memory.
//!
//! The C library does not know this thread ([`BareThread`]), so it does not inform it when the
//! program gives up rights (setuid(2)). The thread has no capabilities, and ends as soon as its
//! users and groups differ from those of the process. The next one has the new ones.

use core::arch::global_asm;
use numapilot_bind::address_of;
use numapilot_bind::cpus::MAX_CPUS;

use super::{TICK_MS, do_all};
use crate::cache::registry::NodeCaches;
use crate::layout::address_space::AddressSpace;
use crate::os::bare_thread::BareThread;
use crate::os::rights::Rights;
use crate::os::{decay_request, kernel, process};
use crate::{config, global};

static THREAD: BareThread = BareThread::new(c"numapilot-decay", run);

/// Consecutive checks without work before it ends.
const PATIENCE: u32 = 10;

/// Whether the thread runs, so that no other thread needs to return memory.
#[inline]
pub fn is_running() -> bool {
    THREAD.is_running()
}

/// Starts the thread if that was requested and it does not run.
#[inline]
pub fn start_if_requested() {
    if decay_request::is_raised() && !THREAD.is_running() {
        start();
    }
}

#[cold]
fn start() {
    decay_request::take();
    if config::get().background_thread {
        THREAD.start();
    }
}

/// Notes in the child of a fork that the thread does not run. If it ran in the parent, it is
/// requested again.
pub fn forget() {
    if THREAD.forget() {
        decay_request::raise();
    }
}

/// The work of the thread. It allocates nothing, so it has no cache.
fn run() {
    // A refusal costs little: capabilities are given up, not requested.
    let _ = process::drop_capabilities();
    process::leave_directories();
    leave_the_creators_cpu();
    // Files that it opens for a moment must not use a number that the program relies on.
    let rights = process::leave_files().ok().and_then(|()| Rights::of_thread());
    let mut in_vain = 0;
    while in_vain < PATIENCE
        && let Some(space) = global::existing()
    {
        kernel::sleep_ms(TICK_MS);
        let is_requested = decay_request::take();
        in_vain = if look(space) || is_requested { 0 } else { in_vain + 1 };
        if gave_up(rights.as_ref()) {
            return;
        }
    }
}

/// Does what is due on all nodes; returns whether there may be more work soon.
fn look(space: &AddressSpace) -> bool {
    let now_ms = kernel::now_ms();
    NodeCaches::all(space).filter(|node| do_all(space, node, now_ms)).count() > 0
}

/// Whether the rights of the process have changed. Returns false if the kernel does not report
/// them, or if this thread may open no files.
fn gave_up(rights: Option<&Rights>) -> bool {
    rights.zip(Rights::of_process()).is_some_and(|(own, process)| *own != process)
}

global_asm!(".weak numapilot_bind_cpus");

/// If libnumapilot_bind pins each thread of the program to one CPU, this thread may run on all CPUs
/// of the program: its inherited CPU is its creator's. Otherwise an inherited mask is the user's
/// choice.
fn leave_the_creators_cpu() {
    let address = address_of!("numapilot_bind_cpus");
    if address == 0 {
        return;
    }
    // SAFETY: that library's function of this name and signature. Its result is null, or points to
    // a bit for each CPU; the bits do not change.
    unsafe {
        let cpus = core::mem::transmute::<usize, extern "C" fn() -> *const u64>(address)();
        if !cpus.is_null() {
            // If this is refused, it stays on its CPU.
            let _ = process::allow_cpus(cpus, MAX_CPUS / 8);
        }
    }
}
