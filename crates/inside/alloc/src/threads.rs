//! Threads come, move, end, and fork.

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, Ordering, fence};

use crate::heap::{Bins, EMPTY, Heap};
use crate::space::{self, Space};
use crate::{helper, mappings, profile, statistics, tls};

/// The thread-specific value whose destructor tells that a thread ends.
struct Key {
    phase: AtomicU32,
    key: AtomicU32,
}

const UNTOUCHED: u32 = 0;
const BUSY: u32 = 1;
const READY: u32 = 2;

static KEY: Key = Key { phase: AtomicU32::new(UNTOUCHED), key: AtomicU32::new(0) };

/// The calling thread's heap, if it has one.
#[inline]
pub fn heap() -> Option<*mut Heap> {
    let heap = tls::heap();
    (!heap.is_null()).then_some(heap)
}

/// The calling thread's heap and the space; `None` when there is no memory for them.
pub fn attach() -> Option<(&'static Space, *mut Heap)> {
    let space = space::get()?;
    if let Some(heap) = heap() {
        return Some((space, heap));
    }
    let number = space.nodes().current();
    let heap = space.node(number).take_heap(space)?;
    // SAFETY: the heap was given to this thread alone.
    unsafe { (*heap).start(space, number) };
    // From here on the calls below may allocate.
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

/// Runs a slow path on the calling thread's heap; `None` when there is no memory for one.
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
    helper::start_if_wanted();
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
/// Called when the library is loaded: a process that forks while another thread allocates for
/// the first time must find the handlers in place. A constructor that runs earlier and
/// allocates comes here as well.
pub fn prepare() {
    let turn = KEY.phase.compare_exchange(UNTOUCHED, BUSY, Ordering::Acquire, Ordering::Acquire);
    if turn.is_err() {
        return;
    }
    let mut key = 0;
    // SAFETY: three functions, and a key with a destructor, of this library, which live until
    // the end.
    let made = unsafe {
        libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child));
        libc::pthread_key_create(&raw mut key, Some(end)) == 0
    };
    KEY.key.store(key, Ordering::Relaxed);
    KEY.phase.store(if made { READY } else { BUSY }, Ordering::Release);
}

/// Has [`end`] called when the thread ends.
fn watch(heap: *mut Heap) {
    prepare();
    // Whoever comes while the key is made is a thread without an end: its heap is not
    // found again, which costs a few magazines once.
    if KEY.phase.load(Ordering::Acquire) == READY {
        // SAFETY: the key exists.
        unsafe { libc::pthread_setspecific(KEY.key.load(Ordering::Relaxed), heap.cast()) };
    }
}

/// The calling thread ends: its heap goes to the next one.
extern "C" fn end(heap: *mut c_void) {
    let heap = heap.cast::<Heap>();
    let Some(space) = space::existing() else { return };
    // A destructor that runs after this one and allocates attaches the thread again.
    hold(null_mut());
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
}

extern "C" fn after_fork() {
    profile::unlock_all();
    if let Some(space) = space::existing() {
        space.all_nodes().for_each(|node| node.unlock_all());
    }
}

/// In the child only the caller lives on: the heaps of the other threads are nobody's.
extern "C" fn in_child() {
    after_fork();
    mappings::forked();
    helper::forget();
    let Some(space) = space::existing() else { return };
    let mine = heap().unwrap_or(null_mut());
    for heap in space.all_nodes().flat_map(|node| node.heaps()) {
        // SAFETY: heaps are never taken away; this is the only thread.
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
