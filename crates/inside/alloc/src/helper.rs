//! The helper thread: gives idle memory back while the program does something else.
//!
//! It starts when there is much to give back, looks ten times a second, and ends when
//! nothing is left. Without it, memory is given back only by threads that allocate.

use core::arch::global_asm;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, Ordering};

use numapilot_bind::address_of;

use crate::reclaim::{self, TICK_MS};
use crate::space::{self, Space};
use crate::{config, kernel};

/// None, and none wanted.
const ABSENT: u32 = 0;
/// Somebody saw that there is much to do.
const WANTED: u32 = 1;
/// There is one.
const RUNNING: u32 = 2;
/// The system lets us have none.
const REFUSED: u32 = 3;

static STATE: AtomicU32 = AtomicU32::new(ABSENT);

/// Looks in vain, one after the other, before it ends.
const PATIENCE: u32 = 10;

/// Says that there is much to give back. The thread is started when the caller has put
/// everything in order: see [`start_if_wanted`].
#[inline]
pub fn want() {
    if STATE.load(Ordering::Relaxed) == ABSENT && config::get().helper {
        let _ = STATE.compare_exchange(ABSENT, WANTED, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Whether there is one, so that nobody else needs to give memory back.
#[inline]
pub fn is_running() -> bool {
    STATE.load(Ordering::Relaxed) == RUNNING
}

/// Starts it when it is wanted. May allocate, so that the caller holds nothing.
#[inline]
pub fn start_if_wanted() {
    if STATE.load(Ordering::Relaxed) == WANTED {
        start();
    }
}

#[cold]
fn start() {
    if STATE.compare_exchange(WANTED, RUNNING, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return;
    }
    if !create(run) {
        STATE.store(REFUSED, Ordering::Relaxed);
    }
}

global_asm!(".weak numapilot_bind_create_unplaced");

/// pthread_create(3).
type Create = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    extern "C" fn(*mut c_void) -> *mut c_void,
    *mut c_void,
) -> c_int;

/// How libnumapilot_bind, where it is loaded, creates a thread that is none of the program's
/// and takes no CPU away from those that are.
fn unplaced() -> Option<Create> {
    let address = address_of!("numapilot_bind_create_unplaced");
    // SAFETY: that library's function of this name and signature.
    (address != 0).then(|| unsafe { core::mem::transmute::<usize, Create>(address) })
}

/// Creates a thread: detached, with a small stack, and deaf to the program's signals.
/// Whether the system allowed it.
pub fn create(run: extern "C" fn(*mut c_void) -> *mut c_void) -> bool {
    const STACK: usize = 128 << 10;
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: each is initialised by the call before its use; the attributes are those of
    // one thread, whose function needs no argument and lives as long as the process. The
    // signal mask is put back at once.
    unsafe {
        if libc::pthread_attr_init(attributes.as_mut_ptr()) != 0 {
            return false;
        }
        libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK);
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let create = unplaced().unwrap_or(libc::pthread_create);
        let made = create(thread.as_mut_ptr(), attributes.as_ptr(), run, null_mut());
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        made == 0
    }
}

/// What the thread does. It allocates nothing, so that it has no heap.
extern "C" fn run(_: *mut c_void) -> *mut c_void {
    let mut in_vain = 0;
    while in_vain < PATIENCE
        && let Some(space) = space::existing()
    {
        kernel::sleep_ms(TICK_MS);
        in_vain = if look(space) { 0 } else { in_vain + 1 };
    }
    STATE.store(ABSENT, Ordering::Relaxed);
    null_mut()
}

/// Does what is due on all nodes; whether there may be something to do soon.
fn look(space: &Space) -> bool {
    let now_ms = kernel::now_ms();
    space.all_nodes().filter(|node| reclaim::do_all(space, node, now_ms)).count() > 0
}

/// In the child of a fork there is none.
pub fn forget() {
    if STATE.load(Ordering::Relaxed) == RUNNING {
        STATE.store(WANTED, Ordering::Relaxed);
    }
}
