//! The C library this process is linked to, which is the one its children load unless
//! they bring their own.
//!
//! Source: gnu_get_libc_version(3).

/// Its version, for instance `(2, 36)`; `None` where the C library is not glibc.
#[cfg(target_env = "gnu")]
#[must_use]
pub fn glibc_version() -> Option<(u32, u32)> {
    // SAFETY: the function takes nothing and returns a static, terminated string.
    let text = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    parse(text.to_str().ok()?)
}

/// Its version, for instance `(2, 36)`; `None` where the C library is not glibc.
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
