//! The limit of open files: raised for this process, but not for the programs that it starts.
//!
//! Source: getrlimit(2), `RLIMIT_NOFILE`. Most systems set a soft limit of 1024, which programs
//! that use select(2) need, and a much higher hard limit for programs that raise it themselves. A
//! counter for each thread or CPU of a large machine needs more than 1024 descriptors.

use std::sync::OnceLock;

/// The limits with which this process began, once they have been raised.
static BEFORE: OnceLock<libc::rlimit> = OnceLock::new();

/// Raises the soft limit to the hard limit. Programs started by [`crate::spawn`] get the limit with
/// which this process began. If raising the limit fails, opening a file fails later with `EMFILE`.
pub fn raise() {
    BEFORE.get_or_init(|| {
        let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the pointer is to a live local of the right type.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits) };
        set(libc::rlimit { rlim_cur: limits.rlim_max, ..limits });
        limits
    });
}

/// Undoes [`raise`] in the calling process. It only reads memory and makes one system call, so it
/// may be called between fork and exec. Lowering a soft limit is always allowed.
pub(crate) fn put_back() {
    if let Some(before) = BEFORE.get() {
        set(*before);
    }
}

fn set(limits: libc::rlimit) {
    // SAFETY: the pointer is to a live local of the right type, which the kernel only reads.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits) };
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn soft() -> libc::rlim_t {
        let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the pointer is to a live local of the right type.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits) };
        limits.rlim_cur
    }

    #[test]
    fn programs_get_the_limit_that_this_process_began_with() {
        let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the pointer is to a live local of the right type.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits) };
        if limits.rlim_max <= 300 {
            println!("skipped: the hard limit of open files is {}", limits.rlim_max);
            return;
        }
        set(libc::rlimit { rlim_cur: 300, ..limits });
        raise();
        raise();
        assert_eq!(soft(), limits.rlim_max);
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n"]).stdout(Stdio::piped());
        let output = crate::spawn::spawn(&mut command).unwrap().wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "300");
    }
}
