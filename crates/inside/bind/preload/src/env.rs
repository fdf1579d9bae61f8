//! The environment of the target, and messages about variables that cannot be used.

use core::ffi::CStr;

/// Returns the value of a variable. Returns `None` in a process with rights that its caller lacks.
pub fn variable(name: &str) -> Option<&'static CStr> {
    let mut buffer = [0u8; 64];
    buffer.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
    // SAFETY: getauxval takes a number and cannot fail.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    // SAFETY: the name ends with a zero byte; the value lives as long as the environment, which
    // does not change while a library is loaded.
    unsafe {
        let value = libc::getenv(buffer.as_ptr().cast());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    }
}

/// Reports on standard error why a variable cannot be used.
pub fn complain(parts: &[&str]) -> Option<()> {
    let mut line = [0u8; 256];
    let mut end = 0;
    for part in ["numapilot: "].iter().chain(parts) {
        let next = (end + part.len()).min(line.len());
        let room = line.get_mut(end..next)?;
        room.copy_from_slice(part.as_bytes().get(..room.len())?);
        end = next;
    }
    // SAFETY: pointer and length are those of a live array. An error is ignored, because nothing
    // can be done about it.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), end) };
    None
}
