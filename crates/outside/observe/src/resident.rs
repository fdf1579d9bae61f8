//! Resident memory of one process, including huge pages of hugetlbfs.
//!
//! Source: proc_pid_status(5). The kernel counts pages of hugetlbfs (`MAP_HUGETLB`, `SHM_HUGETLB`)
//! only in `HugetlbPages`, not in `VmRSS`, `VmHWM` or getrusage(2).

use std::io::Read;

use procfs::process::Process;

use crate::thread_group::open_memory_file;

/// Resident memory of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// Present size in bytes: `VmRSS` and `HugetlbPages`.
    pub now_bytes: u64,
    /// Known maximum in bytes: the larger of `VmHWM` and the present size. The kernel keeps no
    /// high-water mark of hugetlbfs.
    pub peak_bytes: u64,
    /// Present huge pages of hugetlbfs in bytes, which are included in both.
    pub hugetlb_bytes: u64,
    /// Present anonymous pages in bytes (`RssAnon`, Linux 4.5), of which a forked process begins with
    /// a copy; `VmRSS` if the kernel does not tell.
    pub anonymous_bytes: u64,
}

impl Resident {
    /// Reads it for a process. Returns `None` if the process has ended.
    #[must_use]
    pub fn of(process: &Process) -> Option<Self> {
        let mut status = Vec::new();
        open_memory_file(process, "status").ok()?.read_to_end(&mut status).ok()?;
        Self::parse(&status)
    }

    /// Parses the file. It also contains the name of the process, which may have any bytes.
    fn parse(status: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(status);
        let bytes = |key: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            let kib: u64 = value.trim().strip_suffix(" kB")?.trim().parse().ok()?;
            Some(kib.saturating_mul(1024))
        };
        let hugetlb_bytes = bytes("HugetlbPages").unwrap_or(0);
        let resident_bytes = bytes("VmRSS")?;
        let anonymous_bytes = bytes("RssAnon").unwrap_or(resident_bytes);
        let now_bytes = resident_bytes.saturating_add(hugetlb_bytes);
        let peak_bytes = bytes("VmHWM").unwrap_or(0).max(now_bytes);
        Some(Self { now_bytes, peak_bytes, hugetlb_bytes, anonymous_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_of_hugetlbfs_are_resident() {
        let status =
            |hugetlb: &str| format!("Name:\tx\nVmHWM:\t  30 kB\nVmRSS:\t  20 kB\n{hugetlb}");
        let seen = |text: String| Resident::parse(text.as_bytes()).unwrap();
        let with = seen(status("HugetlbPages:\t   4096 kB\n"));
        assert_eq!((with.now_bytes, with.peak_bytes), (4116 << 10, 4116 << 10));
        assert_eq!(with.hugetlb_bytes, 4096 << 10);
        let without = seen(status(""));
        assert_eq!((without.now_bytes, without.peak_bytes), (20 << 10, 30 << 10));
    }

    #[test]
    fn anonymous_pages_are_a_part() {
        let seen = |more: &str| {
            let text = format!("VmHWM:\t 30 kB\nVmRSS:\t 20 kB\n{more}");
            Resident::parse(text.as_bytes()).unwrap().anonymous_bytes
        };
        assert_eq!(seen("RssAnon:\t 12 kB\nRssFile:\t 8 kB\n"), 12 << 10);
        assert_eq!(seen(""), 20 << 10);
    }

    #[test]
    fn a_name_of_any_bytes_and_a_process_without_memory() {
        let seen = Resident::parse(b"Name:\t\xd1\xd0\nVmHWM:\t 7 kB\nVmRSS:\t 5 kB\n").unwrap();
        assert_eq!(seen.peak_bytes, 7 << 10);
        assert_eq!(Resident::parse(b"Name:\tx\nState:\tZ (zombie)\n"), None);
        assert!(Resident::of(&Process::myself().unwrap()).unwrap().now_bytes > 100 << 10);
    }
}
