//! Loading of the library, forks of the process, and the end of the program.

use crate::cache::registry::NodeCaches;
use crate::config::{PROFILE, STATISTICS};
use crate::decay::background_thread;
use crate::os::lock;
use crate::page_heap::{mapping_budget, small_chunks};
use crate::telemetry::{profile, statistics};
use crate::{config, global, threads};

/// Runs before the program's own constructors, and after its last destructor.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

/// Whether anything is written when the program ends.
const REPORTS: bool = STATISTICS || PROFILE;

/// A word that other modules name, so that this module is linked: from a static library, the linker
/// takes only what is referenced.
pub static LINKED: u8 = 0;

extern "C" fn begin() {
    config::read();
    mapping_budget::prepare();
    small_chunks::prepare();
    // SAFETY: three functions of this library, which exist until the end. The call takes a lock of
    // the C library and allocates, which is possible here.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    threads::prepare();
    let config = config::get();
    // Reserve nothing for a program that never allocates, unless it must report statistics.
    let tells = config.stats.is_some() || config.stats_signal.is_some() || config.profile.is_some();
    if REPORTS && tells && global::get().is_some() {
        profile::start();
        statistics::prepare();
    }
}

extern "C" fn end() {
    if REPORTS {
        statistics::finish();
    }
}

extern "C" fn before_fork() {
    // Created now if it does not exist. A half-created one would stay half-created in the child.
    if let Some(space) = global::get() {
        NodeCaches::all(space).for_each(NodeCaches::lock_all);
    }
    if PROFILE {
        profile::lock_all();
    }
    lock::begin_fork();
}

extern "C" fn after_fork() {
    lock::end_fork();
    if PROFILE {
        profile::unlock_all();
    }
    if let Some(space) = global::existing() {
        NodeCaches::all(space).for_each(NodeCaches::unlock_all);
    }
}

/// Data that other threads held is released before the locks are, because threads that earlier fork
/// handlers created wait for the locks.
extern "C" fn in_child() {
    mapping_budget::forked();
    background_thread::forget();
    if STATISTICS {
        statistics::forget();
    }
    if let Some(space) = global::existing() {
        threads::release_all_but_own(space);
    }
    after_fork();
}
