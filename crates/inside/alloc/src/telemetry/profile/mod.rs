//! Sampling heap profile: which calls hold how much memory, in pprof's format.
//!
//! Every allocated byte is sampled with the same small probability, so the distance between two
//! samples is exponential in bytes (as in tcmalloc and jemalloc). The stack of the sampled call is
//! taken, and the object is recorded until it is freed. The size of a sample determines what it
//! represents: an object of `s` bytes is sampled with probability `1 - exp(-s / period)`.
//!
//! The fast paths know nothing about this. If a profile is requested, threads give them bins that
//! hold and accept nothing (`crate::threads`). So every call takes the slow path, behind which
//! magazines work as usual, and each allocation is counted. A sampled small object is served as a
//! large block, with pages of its own. When it is freed, the description of the block identifies
//! the stack.
//!
//! | file | what |
//! |---|---|
//! | `stack` | takes the stack of a call, without allocation |
//! | `table` | stacks, and how many objects were allocated and freed |
//! | `mappings` | the program's code, so that the addresses are meaningful elsewhere |
//! | `encode`, `write` | protocol buffers, and the profile in them |

mod encode;
mod mappings;
mod stack;
mod table;
mod write;

use numapilot_bind::env::ALLOC_PROFILE;

use crate::os::kernel;
use crate::os::lock::Lock;
use crate::os::output::complain;
use crate::{config, global, sampling, threads};
use table::Table;

static TABLE: Lock<Table> = Lock::new(Table::NONE);

/// Starts to sample, if a profile was requested. Called once, before the program's main function;
/// may allocate.
pub fn start() {
    if !sampling::is_wanted() {
        return;
    }
    let ready = stack::start().and_then(|()| TABLE.lock().start());
    match ready {
        Ok(()) => sampling::start(),
        Err(cause) => complain(format_args!("{ALLOC_PROFILE} is ignored: {cause}")),
    }
}

/// Records a block that was just taken for the caller, because `crate::sampling` chose it. The
/// block is large whatever its size. Returns null if there was no memory.
#[cold]
#[inline(never)]
pub fn note(block: *mut u8, size: usize) {
    if let Some(space) = global::existing().filter(|_| !block.is_null()) {
        let stack = stack::take();
        let number = TABLE.lock().enter(stack.addresses(), size as u64);
        // SAFETY: the block belongs to the caller, so no other thread changes its description.
        unsafe { (*space.span(space.page_of(block as usize))).free = number };
    }
    threads::with_cache(|_, cache| cache.countdown.sampled());
}

/// Notes that the block recorded under this number was freed.
#[cold]
pub fn forget(number: u32) {
    TABLE.lock().leave(number);
}

/// Writes the current profile to a descriptor.
///
/// # Errors
/// EINVAL if there is none, or the error number of the write.
pub fn write_to(descriptor: i32) -> Result<(), i32> {
    if !sampling::is_running() {
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
