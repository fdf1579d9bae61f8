//! The limit of open files: raised for this process, but not for the programs that it starts.
//!
//! Source: getrlimit(2), `RLIMIT_NOFILE`. Most systems set a soft limit of 1024, which programs
//! that use select(2) need, and a much higher hard limit for programs that raise it themselves. A
//! counter for each thread or CPU of a large machine needs more than 1024 descriptors.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limits with which this process began, once they have been raised.
static BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit to the hard limit. Programs started by [`crate::spawn`] get the limit with
/// which this process began. If raising the limit fails, opening a file fails later with `EMFILE`.
pub fn raise() {
    BEFORE.get_or_init(|| {
        let limits = getrlimit(Resource::Nofile);
        set(Rlimit { current: limits.maximum, ..limits });
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

fn set(limits: Rlimit) {
    // An error is ignored: opening a file fails later.
    let _ = setrlimit(Resource::Nofile, limits);
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn programs_get_the_limit_that_this_process_began_with() {
        let limits = getrlimit(Resource::Nofile);
        if let Some(maximum) = limits.maximum.filter(|maximum| *maximum <= 300) {
            println!("skipped: the hard limit of open files is {maximum}");
            return;
        }
        set(Rlimit { current: Some(300), ..limits });
        raise();
        raise();
        assert_eq!(getrlimit(Resource::Nofile).current, limits.maximum);
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n"]).stdout(Stdio::piped());
        let output = crate::spawn::spawn(&mut command).unwrap().wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "300");
    }
}
