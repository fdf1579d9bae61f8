//! Replicated bytes and files, and their readers.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{null, null_mut};
use core::slice;

use numapilot_replicate::{Copies, Error, FileCopies, FileReader, Reader, Replicated};

use crate::fail;
use crate::memory::{boxed, free};

/// `numapilot_replicated`.
pub enum Value {
    /// Bytes given by the program.
    Bytes(Replicated<[u8]>),
    /// A file.
    File(FileCopies),
}

/// `numapilot_reader`.
pub enum ValueReader {
    /// Of bytes.
    Bytes(Reader<'static, [u8]>),
    /// Of a file.
    File(FileReader<'static>),
}

/// # Safety
/// `data` points to `size` bytes.
unsafe fn copies(data: *const c_void, size: usize) -> Result<Copies<[u8]>, Error> {
    if size == 0 {
        return Copies::from_slice(&[]);
    }
    // SAFETY: by contract.
    Copies::from_slice(unsafe { slice::from_raw_parts(data.cast(), size) })
}

/// # Safety
/// `data` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn numapilot_replicate(data: *const c_void, size: usize) -> *mut Value {
    // SAFETY: by contract.
    unsafe { copies(data, size) }
        .and_then(|copies| boxed(Value::Bytes(Replicated::new(copies))))
        .unwrap_or_else(|error| fail(error, null_mut()))
}

/// # Safety
/// `path` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn numapilot_replicate_file(path: *const c_char) -> *mut Value {
    // SAFETY: by contract.
    FileCopies::open(unsafe { CStr::from_ptr(path) })
        .and_then(|file| boxed(Value::File(file)))
        .unwrap_or_else(|error| fail(error, null_mut()))
}

/// # Safety
/// `value` is from one of the two functions above; `data` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn numapilot_publish(
    value: *mut Value,
    data: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: by contract.
    let Value::Bytes(replicated) = (unsafe { &*value }) else { return fail(Error::NotAFile, -1) };
    // SAFETY: by contract.
    match unsafe { copies(data, size) } {
        Ok(copies) => {
            replicated.publish(copies);
            0
        }
        Err(error) => fail(error, -1),
    }
}

/// # Safety
/// `value` is null or from `numapilot_replicate` or `numapilot_replicate_file`, and all its
/// readers are freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn numapilot_replicated_free(value: *mut Value) {
    // SAFETY: by contract.
    unsafe { free(value) };
}

/// # Safety
/// `value` is from `numapilot_replicate` or `numapilot_replicate_file`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn numapilot_reader_new(value: *mut Value) -> *mut ValueReader {
    // SAFETY: by contract it outlives its readers.
    let reader = match unsafe { &*value } {
        Value::Bytes(bytes) => bytes.reader().map(ValueReader::Bytes),
        Value::File(file) => file.reader().map(ValueReader::File),
    };
    reader.and_then(boxed).unwrap_or_else(|error| fail(error, null_mut()))
}

/// # Safety
/// `reader` is from `numapilot_reader_new` and no other thread uses it; `size` is null or
/// points to a `size_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn numapilot_read(
    reader: *mut ValueReader,
    size: *mut usize,
) -> *const c_void {
    // SAFETY: by contract.
    let bytes = match unsafe { &mut *reader } {
        ValueReader::Bytes(reader) => Some(reader.read()),
        ValueReader::File(reader) => reader.read(),
    };
    let Some(bytes) = bytes else {
        // SAFETY: the location is valid for the calling thread.
        unsafe { *libc::__errno_location() = libc::ESTALE };
        return null();
    };
    if !size.is_null() {
        // SAFETY: by contract.
        unsafe { *size = bytes.len() };
    }
    bytes.as_ptr().cast()
}

/// # Safety
/// As `numapilot_read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn numapilot_reader_rest(reader: *mut ValueReader) {
    // SAFETY: by contract.
    match unsafe { &mut *reader } {
        ValueReader::Bytes(reader) => reader.rest(),
        ValueReader::File(reader) => reader.rest(),
    }
}

/// # Safety
/// `reader` is null or from `numapilot_reader_new`, and nothing uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn numapilot_reader_free(reader: *mut ValueReader) {
    // SAFETY: by contract.
    unsafe { free(reader) };
}
