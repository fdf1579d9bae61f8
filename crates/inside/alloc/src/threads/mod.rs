//! Threads start, move to other nodes, and end.

pub mod tls;
pub mod without_cache;

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, Ordering, fence};

use crate::cache::bins::EMPTY;
use crate::cache::registry::NodeCaches;
use crate::cache::thread_cache::ThreadCache;
use crate::decay::background_thread;
use crate::layout::address_space::AddressSpace;
use crate::{global, sampling};

/// The key of the thread-specific value whose destructor runs when a thread ends, plus 1; 0 while
/// there is none.
static KEY: AtomicU32 = AtomicU32::new(0);

/// The calling thread's cache, if it has one.
#[inline]
pub fn cache() -> Option<*mut ThreadCache> {
    let cache = tls::cache();
    (!cache.is_null()).then_some(cache)
}

/// The calling thread's cache and the space. `None` if there is no memory for them, and for a
/// thread at its end, because nobody would return what its cache would hold.
pub fn attach() -> Option<(&'static AddressSpace, *mut ThreadCache)> {
    let space = global::get()?;
    if let Some(cache) = cache() {
        return Some((space, cache));
    }
    if tls::has_ended() {
        return None;
    }
    let number = space.nodes().current();
    let cache = NodeCaches::of(space, number).take_cache(space)?;
    // SAFETY: the cache was given only to this thread.
    unsafe { (*cache).start(space, number) };
    // From here on the call below may allocate.
    hold(cache);
    watch(cache);
    Some((space, cache))
}

/// Makes a cache, or none, that of the calling thread. The fast paths do not see it if the heap
/// profile must see every call.
fn hold(cache: *mut ThreadCache) {
    tls::set_cache(cache);
    let hidden = cache.is_null() || sampling::is_wanted();
    tls::set_bins(match hidden {
        true => (&raw const EMPTY).cast_mut(),
        // SAFETY: a field's address; the cache is not null.
        false => unsafe { &raw mut (*cache).bins },
    });
}

/// Runs a slow path on the calling thread's cache; `None` if it has none: see [`attach`].
#[inline]
pub fn with_cache<T>(work: impl FnOnce(&'static AddressSpace, &ThreadCache) -> T) -> Option<T> {
    let (space, mut cache) = attach()?;
    // SAFETY: the thread's own cache.
    if space.nodes().count() > 1 && unsafe { &*cache }.is_away(space) {
        cache = follow(space, cache);
    }
    // SAFETY: as above.
    let cache = unsafe { &*cache };
    cache.busy.store(true, Ordering::Relaxed);
    fence(Ordering::Release);
    let result = work(space, cache);
    cache.busy.store(false, Ordering::Release);
    background_thread::start_if_requested();
    Some(result)
}

/// The scheduler has moved the thread. It leaves its cache to its old node and takes one of the new
/// node, so that its allocations are local again.
#[cold]
fn follow(space: &AddressSpace, cache: *mut ThreadCache) -> *mut ThreadCache {
    let number = space.nodes().current();
    let Some(new) = NodeCaches::of(space, number).take_cache(space) else { return cache };
    // SAFETY: the new cache was given only to this thread; the old one is released.
    unsafe {
        (*new).start(space, number);
        (*new).calls.set((*cache).calls.get().wrapping_add(1));
        hold(new);
        release(space, cache);
    }
    watch(new);
    new
}

/// Asks the C library to report the end of threads.
///
/// Called once, when the library is loaded, and from nowhere else, because it takes a lock of the C
/// library.
pub fn prepare() {
    let mut key = 0;
    // SAFETY: a key with a destructor of this library, which exists until the end.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(end)) } != 0 {
        return;
    }
    KEY.store(key + 1, Ordering::Release);
    // The loader, or an earlier constructor, has allocated.
    if let Some(cache) = cache() {
        watch(cache);
    }
}

/// Makes the C library call [`end`] when the thread ends. The cache of a thread that starts before
/// the key exists is not found again, which costs a few magazines once.
fn watch(cache: *mut ThreadCache) {
    if let Some(key) = KEY.load(Ordering::Acquire).checked_sub(1) {
        // SAFETY: the key exists. The call takes no lock. It may allocate, which is possible here.
        unsafe { libc::pthread_setspecific(key, cache.cast()) };
    }
}

/// The calling thread ends, and another thread may take its cache. Code that runs after this, such
/// as a destructor of the program or of the C library, allocates from spans and pages directly.
extern "C" fn end(cache: *mut c_void) {
    let cache = cache.cast::<ThreadCache>();
    let Some(space) = global::existing() else { return };
    hold(null_mut());
    tls::set_ended();
    // SAFETY: the cache of the ending thread; no other thread uses it.
    unsafe { release(space, cache) };
}

/// # Safety
/// The cache belongs to no running thread, or to the caller, who releases it.
unsafe fn release(space: &AddressSpace, cache: *mut ThreadCache) {
    // SAFETY: by contract.
    unsafe {
        (*cache).busy.store(true, Ordering::Relaxed);
        fence(Ordering::Release);
        (*cache).flush(space);
        (*cache).busy.store(false, Ordering::Release);
        (*cache).owned.store(false, Ordering::Release);
        NodeCaches::of(space, (*cache).node()).return_cache(cache);
    }
}

/// In the child of a fork only the caller lives on. The caches of the other threads have no owner,
/// and are released.
pub fn release_all_but_own(space: &AddressSpace) {
    let mine = cache().unwrap_or(null_mut());
    for cache in NodeCaches::all(space).flat_map(|node| node.caches()) {
        // SAFETY: caches are never unmapped; this is the only thread that has one.
        let (owned, busy) = unsafe {
            ((*cache).owned.load(Ordering::Acquire), (*cache).busy.load(Ordering::Acquire))
        };
        // A cache that was in a slow path may be inconsistent, so it is left alone.
        if cache != mine && owned && !busy {
            // SAFETY: its thread does not exist in this process.
            unsafe { release(space, cache) };
        }
    }
}
