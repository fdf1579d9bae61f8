//! The library is loaded, the process forks, the program ends.

use crate::cache::registry::NodeCaches;
use crate::decay::background_thread;
use crate::os::lock;
use crate::page_heap::mapping_budget;
use crate::telemetry::{profile, statistics};
use crate::{config, global, threads};

/// Before the program's own constructors, and after its last destructor.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

/// A word that others name, so that this module is linked: from a static library the linker takes
/// only what something names.
pub static LINKED: u8 = 0;

extern "C" fn begin() {
    config::read();
    mapping_budget::prepare();
    // SAFETY: three functions of this library, which live until the end. This takes a lock of the
    // C library's and allocates, which is possible here.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    threads::prepare();
    let config = config::get();
    // Nothing is reserved for a program that never allocates, unless it has to tell so.
    let tells = config.stats.is_some() || config.stats_signal.is_some() || config.profile.is_some();
    if tells && global::get().is_some() {
        profile::start();
        statistics::prepare();
    }
}

extern "C" fn end() {
    statistics::finish();
}

extern "C" fn before_fork() {
    // Made now if it is not: in the child a half-made one would stay so.
    if let Some(space) = global::get() {
        NodeCaches::all(space).for_each(NodeCaches::lock_all);
    }
    profile::lock_all();
    lock::begin_fork();
}

extern "C" fn after_fork() {
    lock::end_fork();
    profile::unlock_all();
    if let Some(space) = global::existing() {
        NodeCaches::all(space).for_each(NodeCaches::unlock_all);
    }
}

/// What other threads held is given up before the locks are: threads that earlier fork handlers
/// made wait for those.
extern "C" fn in_child() {
    mapping_budget::forked();
    background_thread::forget();
    statistics::forget();
    if let Some(space) = global::existing() {
        threads::release_all_but_own(space);
    }
    after_fork();
}
