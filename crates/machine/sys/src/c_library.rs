//! The C library of this process. Its children load the same one unless they have their own.
//!
//! Source: gnu_get_libc_version(3).

/// The version of glibc, for instance `(2, 36)`, or `None` for another C library.
#[cfg(target_env = "gnu")]
#[must_use]
pub fn glibc_version() -> Option<(u32, u32)> {
    // SAFETY: the function takes no argument and returns a static C string.
    let text = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    parse(text.to_str().ok()?)
}

/// The version of glibc, for instance `(2, 36)`, or `None` for another C library.
#[cfg(not(target_env = "gnu"))]
#[must_use]
pub fn glibc_version() -> Option<(u32, u32)> {
    None
}

#[cfg(any(target_env = "gnu", test))]
fn parse(text: &str) -> Option<(u32, u32)> {
    let (major, rest) = text.split_once('.')?;
    let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_two_numbers() {
        assert_eq!(parse("2.36"), Some((2, 36)));
        assert_eq!(parse("2.39.9000"), Some((2, 39)));
        assert_eq!(parse("x"), None);
        assert_eq!(glibc_version().is_some(), cfg!(target_env = "gnu"));
    }
}
