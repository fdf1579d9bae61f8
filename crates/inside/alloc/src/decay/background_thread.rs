//! The background thread: gives idle memory back while the program does something else.
//!
//! It starts when there is much to give back, looks ten times a second, and ends when
//! nothing is left. Without it, memory is given back only by threads that allocate.
//!
//! The C library does not know it ([`BareThread`]), and therefore tells it nothing when the
//! program gives up rights (setuid(2)). It has no capabilities, and ends as soon as its users and
//! groups are no longer those of the process; the next one that is wanted has the new ones.

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

/// Looks in vain, one after the other, before it ends.
const PATIENCE: u32 = 10;

/// Whether there is one, so that nobody else needs to give memory back.
#[inline]
pub fn is_running() -> bool {
    THREAD.is_running()
}

/// Starts it when that was requested and there is none.
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

/// In the child of a fork there is none; it is wanted there if it ran.
pub fn forget() {
    if THREAD.forget() {
        decay_request::raise();
    }
}

/// What the thread does. It allocates nothing, so that it has no cache.
fn run() {
    // Where that is refused there is little to lose: capabilities are given up, not asked for.
    let _ = process::drop_capabilities();
    process::leave_directories();
    leave_the_creators_cpu();
    // Files that it opens for a moment must not take a number that the program counts on.
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

/// Does what is due on all nodes; whether there may be something to do soon.
fn look(space: &AddressSpace) -> bool {
    let now_ms = kernel::now_ms();
    NodeCaches::all(space).filter(|node| do_all(space, node, now_ms)).count() > 0
}

/// Whether the process has other rights than these. Not where the kernel does not tell, nor where
/// this thread may open no files.
fn gave_up(rights: Option<&Rights>) -> bool {
    rights.zip(Rights::of_process()).is_some_and(|(own, process)| *own != process)
}

global_asm!(".weak numapilot_bind_cpus");

/// Where libnumapilot_bind puts each thread of the program on one CPU, this one may run on all of
/// the program's: the one that it has inherited is its creator's. Otherwise an inherited mask is
/// the user's wish.
fn leave_the_creators_cpu() {
    let address = address_of!("numapilot_bind_cpus");
    if address == 0 {
        return;
    }
    // SAFETY: that library's function of this name and signature; its result is null, or points to
    // a bit for each CPU that stay as they are.
    unsafe {
        let cpus = core::mem::transmute::<usize, extern "C" fn() -> *const u64>(address)();
        if !cpus.is_null() {
            // Refused, it stays where it is.
            let _ = process::allow_cpus(cpus, MAX_CPUS / 8);
        }
    }
}
