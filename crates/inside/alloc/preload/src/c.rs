//! The C functions.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use numapilot_alloc::api::{self, Errno, NoMemory};
use numapilot_alloc::page_size;

/// The result for a size that no address space holds.
fn out_of_memory() -> *mut c_void {
    Errno::result(usize::MAX, 1).cast()
}

/// posix_memalign(3) returns the error as its result and does not change `errno`.
struct Silent;

impl NoMemory for Silent {
    fn result(_: usize, _: usize) -> *mut u8 {
        null_mut()
    }
}

#[cold]
fn invalid() -> *mut c_void {
    // SAFETY: the location is valid for the calling thread.
    unsafe { *libc::__errno_location() = libc::EINVAL };
    null_mut()
}

/// malloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    api::allocate::<Errno>(size).cast()
}

/// calloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let Some(bytes) = count.checked_mul(size) else { return out_of_memory() };
    api::allocate_zeroed::<Errno>(bytes).cast()
}

/// free(3).
///
/// # Safety
/// As free(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(object: *mut c_void) {
    // SAFETY: by contract.
    unsafe { api::release(object.cast()) }
}

/// realloc(3). A size of zero frees, as in the GNU C library.
///
/// # Safety
/// As realloc(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(object: *mut c_void, size: usize) -> *mut c_void {
    if object.is_null() {
        return malloc(size);
    }
    if size == 0 {
        // SAFETY: by contract.
        unsafe { api::release(object.cast()) };
        return null_mut();
    }
    // SAFETY: by contract.
    unsafe { api::reallocate::<Errno>(object.cast(), size, 1) }.cast()
}

/// reallocarray(3).
///
/// # Safety
/// As reallocarray(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(
    object: *mut c_void,
    count: usize,
    size: usize,
) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: by contract.
        Some(bytes) => unsafe { realloc(object, bytes) },
        None => out_of_memory(),
    }
}

/// free_sized of C23.
///
/// # Safety
/// As free(3); `size` is the requested size of the object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(object: *mut c_void, _size: usize) {
    // SAFETY: by contract.
    unsafe { api::release(object.cast()) }
}

/// free_aligned_sized of C23.
///
/// # Safety
/// As free(3); `align` and `size` are the requested ones of the object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(object: *mut c_void, _align: usize, _size: usize) {
    // SAFETY: by contract.
    unsafe { api::release(object.cast()) }
}

fn aligned(align: usize, size: usize) -> *mut c_void {
    api::allocate_aligned::<Errno>(size, align).cast()
}

/// posix_memalign(3): does not change `errno`.
///
/// # Safety
/// `result` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    result: *mut *mut c_void,
    align: usize,
    size: usize,
) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return libc::EINVAL;
    }
    let object = api::allocate_aligned::<Silent>(size, align);
    if object.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: by contract.
    unsafe { *result = object.cast() };
    0
}

/// aligned_alloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    if align.is_power_of_two() { aligned(align, size) } else { invalid() }
}

/// memalign(3).
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    aligned_alloc(align, size)
}

/// valloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    aligned(page_size(), size)
}

/// pvalloc(3): whole pages.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut c_void {
    let page = page_size();
    match size.checked_next_multiple_of(page) {
        Some(size) => aligned(page, size.max(page)),
        None => out_of_memory(),
    }
}

/// malloc_usable_size(3).
///
/// # Safety
/// The object is allocated, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(object: *mut c_void) -> usize {
    // SAFETY: by contract.
    unsafe { api::usable_size(object.cast()) }
}

/// malloc_trim(3): `pad` is ignored, because memory is returned in whole pages anyway.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(_pad: usize) -> c_int {
    numapilot_alloc::trim().into()
}
