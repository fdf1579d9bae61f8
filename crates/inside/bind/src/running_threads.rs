//! The number of running threads of a process.
//!
//! Source: proc_pid_stat(5).

use core::ffi::CStr;

/// The file of the calling process.
pub const OWN_STAT: &CStr = c"/proc/self/stat";
/// Longer than the fields that are read.
pub const STAT_BYTES: usize = 1024;

/// The number of running threads, from `/proc/PID/stat`. The kernel counts a first thread that has
/// ended until all others have ended. Returns `None` if the text is incomplete.
#[must_use]
pub fn running_threads(stat: &[u8]) -> Option<u32> {
    // Counted from the last `)`, because the name before it may contain any bytes.
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = core::str::from_utf8(stat.get(name_end + 1..)?).ok()?.split_ascii_whitespace();
    let has_first_ended = matches!(fields.next()?, "Z" | "X");
    let threads: u32 = fields.nth(16)?.parse().ok()?;
    threads.checked_sub(u32::from(has_first_ended))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_thread_that_has_ended_is_not_counted() {
        let stat = |state: &str, threads: u32| {
            let text =
                format!("7 (a) b) {state} 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 {threads} 0");
            running_threads(text.as_bytes())
        };
        assert_eq!(stat("S", 3), Some(3));
        assert_eq!(stat("Z", 3), Some(2));
        assert_eq!(stat("Z", 0), None);
        assert_eq!(running_threads(b"7 (a) S 1 2 3"), None);
        assert_eq!(running_threads(b""), None);
    }

    #[test]
    fn this_process_has_threads() {
        let path = OWN_STAT.to_str().unwrap();
        let stat = std::fs::read(path).unwrap();
        assert!(stat.len() < STAT_BYTES && running_threads(&stat).unwrap() > 0);
    }
}
