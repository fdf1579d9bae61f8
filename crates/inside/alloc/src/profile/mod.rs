//! Sampling heap profile: which calls hold how much memory, in pprof's format.
//!
//! Every allocated byte is sampled with the same small probability, so that the waiting time
//! between two samples is exponential in bytes (as in tcmalloc and jemalloc). The stack of
//! the sampled call is taken, and the object is remembered until it is freed. What a sample
//! stands for follows from its size: an object of `s` bytes is sampled with probability
//! `1 - exp(-s / period)`.
//!
//! The fast paths know nothing of this. When a profile is asked for, threads show them bins
//! that hold and take nothing (`crate::threads`), so that every call takes the slow path,
//! behind which magazines work as ever. So each allocation is counted. A sampled small
//! object is served as a large block, of pages of its own: its free leads to the block's
//! description, which names the stack.
//!
//! | file | what |
//! |---|---|
//! | `stack` | takes the stack of a call, without allocation |
//! | `table` | stacks, and how many objects came and went |
//! | `mappings` | the program's code, for the addresses to make sense elsewhere |
//! | `encode`, `write` | protocol buffers, and the profile in them |

mod encode;
mod mappings;
mod stack;
mod table;
mod write;

use core::sync::atomic::{AtomicU32, Ordering};

use numapilot_bind::env::ALLOC_PROFILE;

use crate::heap::Heap;
use crate::lock::Lock;
use crate::output::complain;
use crate::{config, kernel, random, space, threads};
use table::Table;

/// Mean bytes between two samples, unless the user says otherwise.
pub const USUAL_PERIOD: u64 = 512 << 10;

static TABLE: Lock<Table> = Lock::new(Table::NONE);
/// 1: samples are taken.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// Whether a profile was asked for: then all calls take the slow paths.
#[inline]
pub fn is_wanted() -> bool {
    config::get().profile.is_some()
}

/// Whether samples are taken.
#[inline]
pub fn is_running() -> bool {
    STARTED.load(Ordering::Acquire) != 0
}

/// Starts to sample, if a profile was asked for. Called once, before the program's main
/// function; may allocate.
pub fn start() {
    if !is_wanted() {
        return;
    }
    let ready = stack::start().and_then(|()| TABLE.lock().start());
    match ready {
        Ok(()) => STARTED.store(1, Ordering::Release),
        Err(cause) => complain(format_args!("{ALLOC_PROFILE} is ignored: {cause}")),
    }
}

/// What a heap knows of sampling. All zeroes: the next sample is yet to be drawn.
#[repr(C)]
#[derive(Default)]
pub struct Countdown {
    /// Bytes until the next sample; 0: to be drawn.
    bytes: u64,
    /// A sample is being taken: what that allocates is not sampled.
    busy: bool,
}

/// Counts an allocation; whether it is to be sampled. Then its block goes to [`note`].
#[inline]
pub fn is_due(heap: &mut Heap, bytes: usize) -> bool {
    is_wanted() && heap.countdown.pass(bytes as u64)
}

impl Countdown {
    fn pass(&mut self, bytes: u64) -> bool {
        if self.busy || !is_running() {
            return false;
        }
        if self.bytes == 0 {
            self.bytes = random::exponential(config::get().profile_period, random::word);
        }
        self.busy = bytes >= self.bytes;
        // The distribution has no memory: whatever was left over does not matter.
        self.bytes = self.bytes.saturating_sub(bytes);
        self.busy
    }
}

/// Remembers a block that was just taken for the caller, large whatever its size, because
/// [`is_due`] said so; null when there was no memory.
#[cold]
#[inline(never)]
pub fn note(block: *mut u8, size: usize) {
    if let Some(space) = space::existing().filter(|_| !block.is_null()) {
        let stack = stack::take();
        let number = TABLE.lock().enter(stack.addresses(), size as u64);
        // SAFETY: the block is the caller's, so that nobody else changes its description.
        unsafe { (*space.span(space.page_of(block as usize))).free = number };
    }
    threads::with_heap(|_, heap| heap.countdown.busy = false);
}

/// A block ends that was remembered under this number.
#[cold]
pub fn forget(number: u32) {
    TABLE.lock().leave(number);
}

/// Writes the profile at this moment to a descriptor.
///
/// # Errors
/// EINVAL when there is none, or the error number of the write.
pub fn write_to(descriptor: i32) -> Result<(), i32> {
    if !is_running() {
        return Err(libc::EINVAL);
    }
    let sink = &mut |bytes: &[u8]| kernel::write(descriptor, bytes).map_err(|refused| refused.0);
    write::write(&TABLE.lock(), config::get().profile_period, sink)
}

/// Takes its lock, for a fork.
pub fn lock_all() {
    TABLE.acquire();
}

/// Releases its lock after a fork, in parent and child.
pub fn unlock_all() {
    TABLE.release();
}
