//! Checks that `/proc` shows the PID namespace of this process.
//!
//! Source: pid_namespaces(7), proc_pid_status(5). `unshare --pid --fork` without `--mount-proc`
//! leaves the `/proc` of the outer namespace mounted: the process with PID 5 here has another PID
//! there, and PID 5 there is another process.

use std::fs;

use thiserror::Error;

/// `/proc` shows the processes of another PID namespace.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "/proc shows another PID namespace: this process is {here} in its own and {there} there, so \
     processes cannot be found by their PIDs; mount the right one: \
     mount -t proc proc /proc (unshare: --mount-proc)"
)]
pub struct ForeignProc {
    here: u32,
    there: String,
}

/// Checks that `/proc` shows the PID namespace of this process.
///
/// # Errors
/// [`ForeignProc`], with its remedy.
pub fn check_proc() -> Result<(), ForeignProc> {
    // Without /proc, each use of it reports that.
    if !fs::exists("/proc/version").unwrap_or(false) {
        return Ok(());
    }
    compare(std::process::id(), fs::read_to_string("/proc/self/status").ok().as_deref())
}

/// Compares `status` of this process with `here`, its PID in its own namespace.
fn compare(here: u32, status: Option<&str>) -> Result<(), ForeignProc> {
    let foreign = |there: &str| Err(ForeignProc { here, there: there.to_owned() });
    // The /proc of an inner or an unrelated namespace does not show this process.
    let Some(status) = status else { return foreign("not known") };
    let field = |key| status.lines().find_map(|line: &str| line.strip_prefix(key)).map(str::trim);
    // NSpid exists since Linux 4.1 and begins with the PID in the namespace of /proc.
    let there = field("NSpid:").and_then(|pids| pids.split_whitespace().next());
    match there.or_else(|| field("Pid:")) {
        Some(there) if there.parse() != Ok(here) => foreign(there),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_number_there_is_another_namespace() {
        assert_eq!(compare(7, Some("Pid:\t7\nNSpid:\t7\n")), Ok(()));
        // Seen from inside, with the outer /proc.
        let error = compare(1, Some("Pid:\t4711\nNSpid:\t4711\t1\n")).unwrap_err().to_string();
        assert!(error.contains("is 1 in its own and 4711 there"), "{error}");
        assert!(error.contains("mount -t proc"), "{error}");
        assert!(compare(7, None).is_err());
        assert_eq!(compare(7, Some("Pid:\t7\n")), Ok(()));
        assert!(check_proc().is_ok());
    }
}
