//! Mount namespaces, which not every machine allows.

use std::process::Output;

/// Whether unshare(1), or the first mount(8) of the script that it runs, was refused. A script that
/// fails later has failed itself, whatever its exit status.
#[must_use]
pub fn mount_namespace_refused(output: &Output) -> bool {
    let is_start = |start: &[u8]| output.stderr.starts_with(start);
    !output.status.success() && (is_start(b"unshare: ") || is_start(b"mount: "))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::mount_namespace_refused;

    #[test]
    fn only_a_refusal_of_the_namespace_counts() {
        for (script, refused) in [
            ("echo 'unshare: no' >&2; exit 1", true),
            ("echo 'mount: no' >&2; exit 32", true),
            ("echo 'mount: no' >&2", false),
            ("echo 'error' >&2; echo 'mount: no' >&2; exit 1", false),
            ("exit 77", false),
        ] {
            let output = Command::new("sh").args(["-c", script]).output().unwrap();
            assert_eq!(mount_namespace_refused(&output), refused, "{script}");
        }
    }
}
