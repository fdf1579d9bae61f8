//! Allocation and release: the fast paths, and the code that leads to the slow ones.
//!
//! The fast paths are designed together with their machine code. The tests step the library through
//! them and compare each instruction count with a table.

use core::hint::black_box;
use core::ptr::null_mut;
use core::sync::atomic::Ordering;

use crate::cache::bins::{self, Bin, Bins};
use crate::cache::thread_cache::ThreadCache;
use crate::decay;
use crate::large::{self, Block};
use crate::layout::address_space::AddressSpace;
use crate::layout::class_map::{Entry, FOREIGN};
use crate::layout::size_class::{self, PAGE, PAGE_SHIFT, QUANTUM, SMALL_MAX};
use crate::os::{prefetch, report};
use crate::telemetry::{profile, statistics};
use crate::threads::{self, tls, without_cache};
use crate::{config, global, lifecycle, sampling};

/// What to do when there is no memory. It is a parameter of the slow paths, so that the fast ones
/// end with a jump.
pub trait NoMemory {
    /// The result of a failed allocation of `size` bytes at a multiple of `align`.
    fn result(size: usize, align: usize) -> *mut u8;
}

/// As in C: `errno` is ENOMEM and the result null.
pub struct Errno;

impl NoMemory for Errno {
    fn result(_: usize, _: usize) -> *mut u8 {
        // SAFETY: the location is valid for the calling thread.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
        null_mut()
    }
}

/// Allocates `size` bytes at a multiple of 16.
#[inline(always)]
pub fn allocate<N: NoMemory>(size: usize) -> *mut u8 {
    if size > SMALL_MAX {
        return allocate_large::<N>(size, QUANTUM);
    }
    pop::<N>(size_class::bin_of(size))
}

#[inline(always)]
fn pop<N: NoMemory>(bin: usize) -> *mut u8 {
    let bins = tls::bins();
    // SAFETY: the bins belong to the thread. Those of all classes are set, and below a bin's top
    // there is an object or NULL.
    unsafe {
        let slot = bin_of(bins, bin);
        let top = (*slot).top.load(Ordering::Relaxed).sub(1);
        let object = *top;
        if object.is_null() {
            return refill::<N>(bin);
        }
        (*slot).top.store(top, Ordering::Relaxed);
        object
    }
}

/// A bin by its number, which is twice that of its class, so no multiplication is needed.
///
/// # Safety
/// `bins` belongs to the thread, and the bin exists or lies in the zeroes after the bins.
#[inline(always)]
unsafe fn bin_of(bins: *mut Bins, bin: usize) -> *const Bin {
    // SAFETY: a field's address; a bin is two words.
    unsafe { (&raw const (*bins).classes).cast::<usize>().add(bin).cast() }
}

const _: () = assert!(size_of::<Bin>() == 2 * size_of::<usize>());

#[cold]
#[inline(never)]
fn refill<N: NoMemory>(bin: usize) -> *mut u8 {
    let size = size_class::size_of_bin(bin);
    let found = slow_path(|space, cache| {
        if cache.countdown.is_due(size) {
            return (large::allocate(space, cache.node(), size, QUANTUM).start, true);
        }
        decay::pace(space, cache);
        (cache.refill(space, bin / 2), false)
    });
    let (object, is_sampled) = found.unwrap_or_else(|| (without_cache::object(bin / 2), false));
    if is_sampled {
        profile::note(object, size);
    }
    if object.is_null() { N::result(size, QUANTUM) } else { object }
}

#[cold]
#[inline(never)]
fn allocate_large<N: NoMemory>(size: usize, align: usize) -> *mut u8 {
    large_block::<N>(size, align, null_mut()).start
}

/// A large block; if `old` is not null, one that will replace `old`.
fn large_block<N: NoMemory>(size: usize, align: usize, old: *mut u8) -> Block {
    let mut is_sampled = false;
    let block = slow_path(|space, cache| {
        decay::pace(space, cache);
        is_sampled = cache.countdown.is_due(size);
        let region = large::region(space, size, cache.here(space));
        match old.is_null() {
            true => large::allocate(space, region, size, align),
            false => large::allocate_to_replace(space, region, size, align, old),
        }
    });
    let block = block.unwrap_or_else(|| without_cache::block(size, align));
    if is_sampled {
        profile::note(block.start, size);
    }
    if block.start.is_null() {
        return Block { start: N::result(size, align), zero: false };
    }
    block
}

/// Allocates zeroes.
#[inline(always)]
pub fn allocate_zeroed<N: NoMemory>(size: usize) -> *mut u8 {
    if size > SMALL_MAX {
        return zeroed_large::<N>(size);
    }
    let object = pop::<N>(size_class::bin_of(size));
    if !object.is_null() {
        // SAFETY: the object has at least `size` bytes.
        unsafe { object.write_bytes(0, size) };
    }
    object
}

#[cold]
#[inline(never)]
fn zeroed_large<N: NoMemory>(size: usize) -> *mut u8 {
    let block = large_block::<N>(size, QUANTUM, null_mut());
    if !block.start.is_null() && !block.zero {
        // SAFETY: the block has at least `size` bytes.
        unsafe { block.start.write_bytes(0, size) };
    }
    block.start
}

/// Allocates `size` bytes at a multiple of `align`, a power of two.
#[inline]
pub fn allocate_aligned<N: NoMemory>(size: usize, align: usize) -> *mut u8 {
    if align <= QUANTUM {
        return allocate::<N>(size);
    }
    match size_class::aligned_bin_of(size, align) {
        Some(bin) => pop::<N>(bin),
        None => allocate_large::<N>(size, align),
    }
}

/// Frees an object; null is ignored. Ends the process if the object does not belong to this
/// allocator.
///
/// The sized frees come here as well. The size that a program gives is not that of the class if
/// `realloc` left the object where it was, or if the heap profile sampled it. The lookup reads one
/// byte for 16 KiB, which is in the cache.
///
/// # Safety
/// The object is no longer used.
#[inline(always)]
pub unsafe fn release(object: *mut u8) {
    let bins = tls::bins();
    // SAFETY: the bins belong to the thread, the map covers the payload, and there is room between
    // the two words of a bin.
    unsafe {
        match quantum_of(bins, object) {
            Some(quantum) => {
                let entry = entry_at(bins, quantum);
                push(bins, entry.difference((*bins).mask.get()), object);
            }
            None => release_elsewhere(object),
        }
    }
}

/// The quantum of the home node's payload at which an object begins; `None` for an object of
/// another node or of none, and for an address that is not a multiple of 16.
///
/// # Safety
/// `bins` belongs to the thread.
#[inline(always)]
unsafe fn quantum_of(bins: *mut Bins, object: *mut u8) -> Option<usize> {
    // One comparison checks the range, the home node and the alignment: after the rotation, an
    // address that is not a multiple of 16 is huge.
    // SAFETY: by contract.
    unsafe {
        let quantum = (object as usize)
            .wrapping_sub((*bins).base.get())
            .rotate_right(QUANTUM.trailing_zeros());
        (quantum < (*bins).limit.get()).then_some(quantum)
    }
}

/// What lies at a quantum.
///
/// # Safety
/// `bins` belongs to the thread, and `quantum` is below its limit.
#[inline(always)]
unsafe fn entry_at(bins: *mut Bins, quantum: usize) -> Entry {
    // SAFETY: the map covers the payload.
    unsafe { &*(*bins).map.get().add(quantum >> (PAGE_SHIFT - QUANTUM.trailing_zeros())) }.get()
}

/// # Safety
/// As [`release`]. The object belongs to the home node, and `difference` is that of its entry and
/// the thread's mask.
#[inline(always)]
unsafe fn push(bins: *mut Bins, difference: usize, object: *mut u8) {
    // SAFETY: by contract; see `release`. The difference is a bin of the thread, or leads into the
    // zeroes after them.
    unsafe {
        let slot = bin_of(bins, difference);
        let top = (*slot).top.load(Ordering::Relaxed);
        if top == (*slot).end.get() {
            return release_slowly(object, difference, bins);
        }
        bins::refuse_newest(top, object);
        // The thread that allocates it next, soon, will write there, and this is the last moment
        // before that at which its address is known.
        prefetch::to_write(object);
        (*slot).push_at(top, object);
    }
}

/// Frees an object of the home node for which there was no room where its difference leads. Some
/// programs free many objects of other owners, so these have a short path.
///
/// # Safety
/// As [`push`].
#[inline(never)]
unsafe fn release_slowly(object: *mut u8, difference: usize, bins: *mut Bins) {
    // SAFETY: by contract.
    unsafe {
        if difference >= FOREIGN
            && let Some(quantum) = quantum_of(bins, object)
            && (*ThreadCache::of(bins)).collect_fast(entry_at(bins, quantum).owner(), object)
        {
            return;
        }
    }
    release_with_cache(object);
}

/// Frees an object, or a block, of the home node.
#[cold]
#[inline(never)]
fn release_with_cache(object: *mut u8) {
    let sample = slow_path(|space, cache| {
        decay::pace(space, cache);
        let entry = space.entry_of(object as usize);
        if entry == Entry::NONE {
            return large::free(space, object);
        }
        // SAFETY: the fast path found that the object belongs to the node of the cache.
        unsafe { cache.take_back(space, entry, object) };
        0
    });
    forget(sample.unwrap_or_default());
}

/// Frees an object of another node or of none, or one that a thread without a cache frees.
#[cold]
#[inline(never)]
fn release_elsewhere(object: *mut u8) {
    if object.is_null() {
        return;
    }
    let address = object as usize;
    let found = global::existing().and_then(|space| Some((space, space.node_of(address)?)));
    let Some((space, home)) = found else {
        report::bad_free(address, report::FOREIGN);
    };
    if !address.is_multiple_of(QUANTUM) {
        report::bad_free(address, report::MISALIGNED);
    }
    let entry = space.entry_of(address);
    if entry == Entry::NONE {
        let sample = slow_path(|space, _| large::free(space, object));
        return forget(sample.unwrap_or_else(|| large::free(space, object)));
    }
    let done = slow_path(|space, cache| {
        decay::pace(space, cache);
        if home == cache.node() {
            // SAFETY: just compared.
            unsafe { cache.take_back(space, entry, object) };
        } else {
            cache.collect(space, home, entry.class(), object);
        }
    });
    if done.is_none() {
        without_cache::release(space, home, object);
    }
}

/// Runs a slow path on the calling thread's cache; `None` where it has none.
#[inline]
fn slow_path<T>(work: impl FnOnce(&'static AddressSpace, &ThreadCache) -> T) -> Option<T> {
    let result = threads::with_cache(work);
    if result.is_none() {
        black_box(&raw const lifecycle::LINKED);
    }
    if config::STATISTICS {
        statistics::answer_if_alone();
    }
    result
}

/// Forgets a freed block that the heap profile has recorded under this number, if it is not 0.
fn forget(sample: u32) {
    if config::PROFILE && sample != 0 {
        profile::forget(sample);
    }
}

/// The number of bytes that an object can hold; 0 for null.
///
/// # Safety
/// The object is allocated.
#[inline]
pub unsafe fn usable_size(object: *mut u8) -> usize {
    if object.is_null() {
        return 0;
    }
    let Some(space) = global::existing().filter(|space| space.node_of(object as usize).is_some())
    else {
        report::bad_free(object as usize, report::FOREIGN);
    };
    match space.entry_of(object as usize).class() {
        0 => large::usable_size(space, object),
        class => size_class::TABLE[class].size as usize,
    }
}

/// Changes the size of an object in place, or else moves it with its contents. Returns null when
/// there is no memory; the object is then unchanged.
///
/// # Safety
/// The object is allocated, at an alignment of at most `align`. Only the result may be used
/// afterwards.
#[inline]
pub unsafe fn reallocate<N: NoMemory>(object: *mut u8, size: usize, align: usize) -> *mut u8 {
    let bins = tls::bins();
    // SAFETY: as in `release`.
    unsafe {
        if let Some(quantum) = quantum_of(bins, object) {
            let bin = entry_at(bins, quantum).bin();
            if bin == 0 {
                return reallocate_large::<N>(object, size, align);
            }
            if stays(size_class::size_of_bin(bin), size) {
                return object;
            }
        }
        reallocate_slowly::<N>(object, size, align)
    }
}

/// Reallocates a large block, which keeps its pages in most of the steps in which it grows. Blocks
/// with guard pages do not come here.
///
/// # Safety
/// As [`reallocate`].
#[inline(never)]
unsafe fn reallocate_large<N: NoMemory>(object: *mut u8, size: usize, align: usize) -> *mut u8 {
    if size > SMALL_MAX && global::existing().is_some_and(|space| large::fits(space, object, size))
    {
        return object;
    }
    // SAFETY: by contract.
    unsafe { reallocate_slowly::<N>(object, size, align) }
}

/// Whether an object keeps its place: it fits and uses at least half of its size, or it is of the
/// smallest class.
#[inline(always)]
fn stays(held: usize, size: usize) -> bool {
    size <= held && size + QUANTUM > held / 2
}

/// # Safety
/// As [`reallocate`].
#[inline(never)]
unsafe fn reallocate_slowly<N: NoMemory>(object: *mut u8, size: usize, align: usize) -> *mut u8 {
    // SAFETY: by contract.
    let held = unsafe { usable_size(object) };
    if stays(held, size) && (held <= SMALL_MAX) == (size <= SMALL_MAX) {
        // A large block returns the pages that it no longer needs.
        if held - size >= PAGE && held > SMALL_MAX {
            resize_large(object, size);
        }
        return object;
    }
    // SAFETY: by contract.
    unsafe { move_to::<N>(object, held, size, align) }
}

/// The size to request when an object outgrows its class. An object that grows in small steps will
/// continue to grow, so it gets half as much again. It then moves once or twice while it doubles,
/// not four times. Copies of small objects cost less than the memory.
fn with_slack(held: usize, size: usize) -> usize {
    const LEAST: usize = 80;
    let grows_slowly = held < size && size <= held + held / 4;
    let grows_slowly = grows_slowly && (LEAST..=SMALL_MAX).contains(&size);
    if grows_slowly { size.max(held + held / 2) } else { size }
}

fn resize_large(object: *mut u8, size: usize) -> bool {
    // In a heap profile, another size is another object.
    !sampling::is_wanted()
        && slow_path(|space, _| large::resize(space, object, size)).unwrap_or(false)
}

/// # Safety
/// As [`reallocate`]; `held` is its usable size.
unsafe fn move_to<N: NoMemory>(object: *mut u8, held: usize, size: usize, align: usize) -> *mut u8 {
    let both_large = held > SMALL_MAX && size > SMALL_MAX;
    if both_large && resize_large(object, size) {
        return object;
    }
    if both_large && size > held {
        let new = large_block::<N>(size, align, object).start;
        if let Some(space) = global::existing().filter(|_| !new.is_null()) {
            // SAFETY: the old block is no longer used, and the new one is longer.
            forget(unsafe { large::replace(space, object, new) });
        }
        return new;
    }
    let new = allocate_aligned::<N>(with_slack(held, size), align);
    if !new.is_null() {
        // SAFETY: both objects hold that many bytes; the old one is no longer used.
        unsafe {
            new.copy_from_nonoverlapping(object, held.min(size));
            release(object);
        }
    }
    new
}
