//! Threads come, move, end, and fork.

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, Ordering, fence};

use crate::heap::{Bins, EMPTY, Heap};
use crate::space::{self, Space};
use crate::{background_thread, lock, mappings, profile, statistics, tls};

/// 1 more than the key of the thread-specific value whose destructor tells that a thread ends; 0
/// while there is none.
static KEY: AtomicU32 = AtomicU32::new(0);

/// The calling thread's heap, if it has one.
#[inline]
pub fn heap() -> Option<*mut Heap> {
    let heap = tls::heap();
    (!heap.is_null()).then_some(heap)
}

/// The calling thread's heap and the space; `None` when there is no memory for them, and for a
/// thread at its end: what it would hold then nobody would give back.
pub fn attach() -> Option<(&'static Space, *mut Heap)> {
    let space = space::get()?;
    if let Some(heap) = heap() {
        return Some((space, heap));
    }
    if tls::has_ended() {
        return None;
    }
    let number = space.nodes().current();
    let heap = space.node(number).take_heap(space)?;
    // SAFETY: the heap was given to this thread alone.
    unsafe { (*heap).start(space, number) };
    // From here on the call below may allocate.
    hold(heap);
    watch(heap);
    Some((space, heap))
}

/// Makes a heap, or none, that of the calling thread. The fast paths do not see it when the
/// heap profile must see every call.
fn hold(heap: *mut Heap) {
    tls::set_heap(heap);
    let hidden = heap.is_null() || profile::is_wanted();
    tls::set_bins(if hidden { (&raw const EMPTY).cast_mut() } else { heap.cast::<Bins>() });
}

/// Runs a slow path on the calling thread's heap; `None` where it has none: see [`attach`].
#[inline]
pub fn with_heap<T>(work: impl FnOnce(&'static Space, &mut Heap) -> T) -> Option<T> {
    let (space, heap) = attach()?;
    // SAFETY: the thread's own heap; slow paths do not call each other through here.
    let mut heap = unsafe { &mut *heap };
    if space.nodes().count() > 1 && heap.is_away(space) {
        // SAFETY: as above; the old heap is not used any more.
        heap = unsafe { &mut *follow(space, heap) };
    }
    heap.busy.store(true, Ordering::Relaxed);
    fence(Ordering::Release);
    let result = work(space, heap);
    heap.busy.store(false, Ordering::Release);
    background_thread::start_if_wanted();
    statistics::answer_if_alone();
    Some(result)
}

/// The scheduler moved the thread: it leaves its heap to its old node and takes one of the
/// new node, so that what it allocates is local again.
#[cold]
fn follow(space: &Space, heap: &mut Heap) -> *mut Heap {
    let number = space.nodes().current();
    let Some(new) = space.node(number).take_heap(space) else { return heap };
    // SAFETY: the new heap was given to this thread alone; the old one is given up.
    unsafe {
        (*new).start(space, number);
        (*new).calls = heap.calls.wrapping_add(1);
        hold(new);
        release(space, heap);
    }
    watch(new);
    new
}

/// Asks the C library to tell of forks and of threads that end.
///
/// Called once, when the library is loaded, and from nowhere else: these calls take locks of the
/// C library's and allocate.
pub fn prepare() {
    let mut key = 0;
    // SAFETY: three functions, and a key with a destructor, of this library, which live until
    // the end.
    unsafe {
        libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child));
        if libc::pthread_key_create(&raw mut key, Some(end)) != 0 {
            return;
        }
    }
    KEY.store(key + 1, Ordering::Release);
    // The loader, or an earlier constructor, has allocated.
    if let Some(heap) = heap() {
        watch(heap);
    }
}

/// Has [`end`] called when the thread ends. Of a thread that comes before the key the heap is not
/// found again, which costs a few magazines once.
fn watch(heap: *mut Heap) {
    if let Some(key) = KEY.load(Ordering::Acquire).checked_sub(1) {
        // SAFETY: the key exists. The call takes no lock; it may allocate, but that is possible.
        unsafe { libc::pthread_setspecific(key, heap.cast()) };
    }
}

/// The calling thread ends: its heap goes to the next one. What runs after this, be it a
/// destructor of the program's or the C library's own, goes straight to spans and pages.
extern "C" fn end(heap: *mut c_void) {
    let heap = heap.cast::<Heap>();
    let Some(space) = space::existing() else { return };
    hold(null_mut());
    tls::set_ended();
    // SAFETY: the heap of the thread that ends; nobody else uses it.
    unsafe { release(space, heap) };
}

/// # Safety
/// The heap belongs to no running thread, or to the caller who gives it up.
unsafe fn release(space: &Space, heap: *mut Heap) {
    // SAFETY: by contract.
    unsafe {
        (*heap).busy.store(true, Ordering::Relaxed);
        fence(Ordering::Release);
        (*heap).flush(space);
        (*heap).busy.store(false, Ordering::Release);
        (*heap).owned.store(false, Ordering::Release);
        space.node((*heap).node).return_heap(heap);
    }
}

extern "C" fn before_fork() {
    // Made now if it is not: in the child a half-made one would stay so.
    if let Some(space) = space::get() {
        space.all_nodes().for_each(|node| node.lock_all());
    }
    profile::lock_all();
    lock::begin_fork();
}

extern "C" fn after_fork() {
    lock::end_fork();
    profile::unlock_all();
    if let Some(space) = space::existing() {
        space.all_nodes().for_each(|node| node.unlock_all());
    }
}

/// In the child only the caller lives on: the heaps of the other threads are nobody's. They are
/// given up before the locks are: threads that earlier fork handlers made wait for those.
extern "C" fn in_child() {
    mappings::forked();
    background_thread::forget();
    statistics::forget();
    if let Some(space) = space::existing() {
        release_all_but_own(space);
    }
    after_fork();
}

fn release_all_but_own(space: &Space) {
    let mine = heap().unwrap_or(null_mut());
    for heap in space.all_nodes().flat_map(|node| node.heaps()) {
        // SAFETY: heaps are never taken away; this is the only thread that has one.
        let (owned, busy) = unsafe {
            ((*heap).owned.load(Ordering::Acquire), (*heap).busy.load(Ordering::Acquire))
        };
        // One that was in a slow path may be in the middle of a change: it is left alone.
        if heap != mine && owned && !busy {
            // SAFETY: its thread does not exist in this process.
            unsafe { release(space, heap) };
        }
    }
}
