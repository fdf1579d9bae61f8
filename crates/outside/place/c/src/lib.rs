//! `libnumapilot_place`: applies a profile to the calling process before it executes a program.
//! Documented in `numapilot_place.h`.

use std::ffi::{CStr, CString, OsStr, OsString, c_char, c_uint, c_void};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::ptr;

use numapilot_place::allocators::add_own_directory;
use numapilot_place::{Applied, PlaceError, apply_profile, chain};

/// `NUMAPILOT_STRICT` of the header.
const STRICT: c_uint = 1;

/// The result of one call; see the header.
#[derive(Default)]
pub struct Placement {
    error: Option<CString>,
    notes: Vec<CString>,
    variables: Vec<(CString, CString)>,
}

impl From<Result<Applied, PlaceError>> for Placement {
    fn from(result: Result<Applied, PlaceError>) -> Self {
        match result {
            Ok(Applied { variables, notes }) => Self {
                error: None,
                notes: notes.iter().map(|note| text(note.to_string().into())).collect(),
                variables: variables.into_iter().map(|(k, v)| (text(k), text(v))).collect(),
            },
            Err(error) => Self { error: Some(text(chain(&error).into())), ..Self::default() },
        }
    }
}

/// A text for C, up to its first zero byte.
fn text(text: OsString) -> CString {
    let bytes = text.into_vec();
    let bytes: Vec<u8> = bytes.into_iter().take_while(|byte| *byte != 0).collect();
    CString::new(bytes).unwrap_or_default()
}

/// The directory of this library, where numapilot's other libraries are.
fn own_directory() -> Option<PathBuf> {
    // SAFETY: plain data, for which zeroes are valid.
    let mut about: libc::Dl_info = unsafe { std::mem::zeroed() };
    let own: *const c_void = (own_directory as fn() -> Option<PathBuf>) as *const c_void;
    // SAFETY: dladdr writes to the structure and keeps nothing.
    if unsafe { libc::dladdr(own, &raw mut about) } == 0 || about.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr has succeeded, so this is a C string that lives as long as this library.
    let name = unsafe { CStr::from_ptr(about.dli_fname) };
    let file = Path::new(OsStr::from_bytes(name.to_bytes())).canonicalize().ok()?;
    Some(file.parent()?.to_owned())
}

/// See the header.
///
/// # Safety
/// `profile` is a C string, and `command` an array of C strings that ends with a null pointer; or they
/// are null, which is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn numapilot_place(
    profile: *const c_char,
    command: *const *const c_char,
    flags: c_uint,
) -> *mut Placement {
    if let Some(directory) = own_directory() {
        add_own_directory(directory);
    }
    let invalid = |what: &str| {
        let error = Some(text(format!("numapilot_place: {what}").into()));
        Box::into_raw(Box::new(Placement { error, ..Placement::default() }))
    };
    if profile.is_null() || command.is_null() {
        return invalid("profile and command must not be NULL; pass a path and argv");
    }
    if flags & !STRICT != 0 {
        return invalid("unknown flags; pass 0 or NUMAPILOT_STRICT, or use a newer library");
    }
    // SAFETY: the caller passes a C string.
    let profile = unsafe { word(profile) };
    let mut words = Vec::new();
    let mut next = command;
    // SAFETY: the array ends with a null pointer, at which the loop ends.
    while let Some(at) = ptr::NonNull::new(unsafe { *next }.cast_mut()) {
        // SAFETY: each element before the null pointer is a C string.
        words.push(unsafe { word(at.as_ptr()) });
        // SAFETY: the element was not the last one.
        next = unsafe { next.add(1) };
    }
    let result = apply_profile(Path::new(&profile), &words, flags & STRICT != 0);
    Box::into_raw(Box::new(Placement::from(result)))
}

/// # Safety
/// `text` is a C string.
unsafe fn word(text: *const c_char) -> OsString {
    // SAFETY: that of this function.
    OsStr::from_bytes(unsafe { CStr::from_ptr(text) }.to_bytes()).to_owned()
}

/// See the header.
///
/// # Safety
/// `placement` is a result of [`numapilot_place`] that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn numapilot_placement_error(placement: *const Placement) -> *const c_char {
    // SAFETY: that of this function.
    let placement = unsafe { &*placement };
    placement.error.as_ref().map_or(ptr::null(), |error| error.as_ptr())
}

/// See the header.
///
/// # Safety
/// As [`numapilot_placement_error`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn numapilot_placement_note(
    placement: *const Placement,
    at: usize,
) -> *const c_char {
    // SAFETY: that of this function.
    let placement = unsafe { &*placement };
    placement.notes.get(at).map_or(ptr::null(), |note| note.as_ptr())
}

/// See the header.
///
/// # Safety
/// As [`numapilot_placement_error`]; `value` points to a pointer that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn numapilot_placement_variable(
    placement: *const Placement,
    at: usize,
    value: *mut *const c_char,
) -> *const c_char {
    // SAFETY: that of this function.
    let placement = unsafe { &*placement };
    let Some((name, text)) = placement.variables.get(at) else { return ptr::null() };
    // SAFETY: that of this function.
    unsafe { *value = text.as_ptr() };
    name.as_ptr()
}

/// See the header.
///
/// # Safety
/// `placement` is null, or a result of [`numapilot_place`] that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn numapilot_placement_free(placement: *mut Placement) {
    if !placement.is_null() {
        // SAFETY: it was made by Box::into_raw in numapilot_place, and is freed once.
        drop(unsafe { Box::from_raw(placement) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_null_or_unknown_is_an_error() {
        let command = [ptr::null()];
        for (profile, command, flags) in [
            (ptr::null(), command.as_ptr(), 0),
            (c"app.toml".as_ptr(), ptr::null(), STRICT),
            (c"app.toml".as_ptr(), command.as_ptr(), 0xf0),
        ] {
            // SAFETY: each is null, or what the header asks for; the result is freed once.
            let error = unsafe {
                let placement = numapilot_place(profile, command, flags);
                let error = CStr::from_ptr(numapilot_placement_error(placement)).to_owned();
                numapilot_placement_free(placement);
                error.to_string_lossy().into_owned()
            };
            assert!(error.starts_with("numapilot_place: "), "{error}");
        }
    }
}
