//! What the user can do when a file cannot be read.

use std::io::{Error, ErrorKind};

/// The remedy for an error of opening or reading a file.
#[must_use]
pub fn reading(error: &Error) -> &'static str {
    match (error.raw_os_error(), error.kind()) {
        (Some(libc::EMFILE), _) => "raise the limit of open files (ulimit -n)",
        (Some(libc::ENFILE), _) => {
            "raise the machine's limit of open files (sysctl fs.file-max), or end what holds so many"
        }
        (_, ErrorKind::PermissionDenied) => "check its permissions",
        (_, ErrorKind::OutOfMemory) => "free memory, and try again",
        _ => "check the path",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_follows_from_the_cause() {
        for (error, remedy) in [
            (libc::EMFILE, "ulimit -n"),
            (libc::ENFILE, "fs.file-max"),
            (libc::EACCES, "permissions"),
            (libc::ENOENT, "path"),
        ] {
            assert!(reading(&Error::from_raw_os_error(error)).contains(remedy), "{error}");
        }
    }
}
