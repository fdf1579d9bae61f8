//! Values that C holds by a pointer, in memory of the C library.

use numapilot_replicate::Error;

/// Moves a value into newly allocated memory.
pub fn boxed<T>(value: T) -> Result<*mut T, Error> {
    // SAFETY: takes a size.
    let place = unsafe { libc::malloc(size_of::<T>()) }.cast::<T>();
    if place.is_null() {
        return Err(Error::NoMemory { bytes: size_of::<T>(), copies: 1 });
    }
    // SAFETY: new memory of that size, aligned for every fundamental type.
    unsafe { place.write(value) };
    Ok(place)
}

/// Drops a value made by [`boxed`]; does nothing for null.
///
/// # Safety
/// Nothing uses the value any more.
pub unsafe fn free<T>(place: *mut T) {
    if !place.is_null() {
        // SAFETY: by contract.
        unsafe {
            place.drop_in_place();
            libc::free(place.cast());
        }
    }
}
