//! Files that the library writes without the program's knowledge.

use core::ffi::{CStr, c_int};
use core::fmt::Write;

use numapilot_syscall::caller::process_id;
use numapilot_syscall::file::close;

use crate::os::kernel::{self, Refused};
use crate::os::output::Line;

/// Longest path of a file, with its terminator.
const PATH: usize = 4096;

/// Replaces a file. It first writes a file next to it, so that readers see all or nothing, and so
/// that no link is followed. Each `%p` of the path becomes the process number. Returns the error
/// number if that fails.
pub fn replace(path: &CStr, write: impl FnOnce(c_int) -> Result<(), i32>) -> Result<(), i32> {
    let mut target = Line::<PATH>::new();
    expand(path.to_bytes(), &mut target)?;
    let mut draft = Line::<PATH>::new();
    let file = create_beside(target.bytes(), &mut draft)?;
    let (target, draft) = (target.c_str()?, draft.c_str()?);
    let number = |Refused(number)| number;
    let mut result = write(file);
    close(file);
    if result.is_ok() {
        result = kernel::rename(draft, target).map_err(number);
    }
    if result.is_err() {
        kernel::remove_file(draft);
    }
    result
}

/// Creates a file with a similar name, which it writes to `draft`. Returns its descriptor.
fn create_beside(target: &[u8], draft: &mut Line<PATH>) -> Result<i32, i32> {
    // Another thread may be writing now, or a process with this number was killed while it wrote.
    const ATTEMPTS: u32 = 100;
    let mut refused = libc::EEXIST;
    for attempt in 0..ATTEMPTS {
        *draft = Line::new();
        draft.append_all(target)?;
        let _ = write!(draft, ".{}.{attempt}.tmp", process_id());
        match kernel::create_file(draft.c_str()?) {
            Ok(file) => return Ok(file),
            Err(Refused(number)) => refused = number,
        }
        if refused != libc::EEXIST {
            break;
        }
    }
    Err(refused)
}

/// The path with the process number for each `%p`.
fn expand(path: &[u8], to: &mut Line<PATH>) -> Result<(), i32> {
    let mut rest = path;
    while let Some(at) = rest.windows(2).position(|two| two == b"%p") {
        to.append_all(&rest[..at])?;
        let _ = write!(to, "{}", process_id());
        rest = &rest[at + 2..];
    }
    to.append_all(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_expanded() {
        extern crate std;
        let mut line = Line::new();
        expand(b"/tmp/%p/a-%p.json%", &mut line).unwrap();
        let process = std::process::id();
        let expected = std::format!("/tmp/{process}/a-{process}.json%");
        assert_eq!(line.bytes(), expected.as_bytes());
        assert_eq!(expand(&[b'x'; PATH], &mut Line::new()), Ok(()));
        assert_eq!(expand(&[b'x'; PATH + 1], &mut Line::new()), Err(libc::ENAMETOOLONG));
    }
}
