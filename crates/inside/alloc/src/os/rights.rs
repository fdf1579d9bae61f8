//! Users and groups of the process, and of one of its threads.
//!
//! To the kernel each thread has its own. When a program gives up rights, the C library makes every
//! thread that it knows do the same (nptl(7), "NPTL and signals"). Other threads must check
//! themselves. Source: `/proc/pid/status` (proc_pid_status(5)).

use core::ffi::CStr;

use numapilot_syscall::file::read_file;

/// Enough for the text before the groups, and for 300 groups. Further groups are not compared.
const STATUS: usize = 4096;

/// The beginning of a status file.
pub struct Rights {
    text: [u8; STATUS],
    filled: usize,
}

impl Rights {
    /// The rights of the calling thread; `None` if the kernel does not report them.
    pub fn of_thread() -> Option<Self> {
        Self::read(c"/proc/thread-self/status")
    }

    /// The rights of the process, which are those of its first thread.
    pub fn of_process() -> Option<Self> {
        Self::read(c"/proc/self/status")
    }

    fn read(path: &CStr) -> Option<Self> {
        let mut text = [0; STATUS];
        let filled = read_file(path, &mut text).ok()?.len();
        Some(Self { text, filled })
    }

    /// The complete lines that name users and groups.
    fn lines(&self) -> impl Iterator<Item = &[u8]> {
        const KEYS: [&[u8]; 3] = [b"Uid:", b"Gid:", b"Groups:"];
        let lines = self.text[..self.filled].split_inclusive(|&byte| byte == b'\n');
        lines.filter(|line| line.ends_with(b"\n") && KEYS.iter().any(|key| line.starts_with(key)))
    }
}

impl PartialEq for Rights {
    fn eq(&self, other: &Self) -> bool {
        self.lines().eq(other.lines())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(status: &str) -> Rights {
        let mut text = [0; STATUS];
        text[..status.len()].copy_from_slice(status.as_bytes());
        Rights { text, filled: status.len() }
    }

    #[test]
    fn only_users_and_groups_are_compared() {
        let before =
            rights("Name:\ta\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nFDSize:\t64\nGroups:\t0 4 \n");
        let same =
            rights("Name:\tb\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nFDSize:\t9\nGroups:\t0 4 \n");
        assert!(before == same);
        for changed in [
            "Name:\ta\nUid:\t0\t7\t0\t0\nGid:\t0\t0\t0\t0\nFDSize:\t64\nGroups:\t0 4 \n",
            "Name:\ta\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t7\t0\nFDSize:\t64\nGroups:\t0 4 \n",
            "Name:\ta\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nFDSize:\t64\nGroups:\t0 \n",
        ] {
            assert!(before != rights(changed), "{changed}");
        }
    }

    #[test]
    fn those_of_this_thread_are_those_of_its_process() {
        let (thread, process) = (Rights::of_thread(), Rights::of_process());
        let (Some(thread), Some(process)) = (thread, process) else {
            panic!("/proc is not mounted");
        };
        assert_eq!(thread.lines().count(), 3);
        assert!(thread == process);
    }
}
