//! A control group for a test.

use std::fs;
use std::path::PathBuf;

use crate::wait_until;

/// A group of cgroup v2, which is removed when this is dropped. Its processes must have ended by then.
#[derive(Debug)]
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// Makes a group, or returns `None` where none can be made. The name distinguishes the groups of
    /// tests that run at the same time.
    ///
    /// # Panics
    /// If `/proc` cannot be read.
    #[must_use]
    pub fn make(name: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("/proc is mounted");
        let mounts = mounts.lines().filter(|line| line.contains(" cgroup2 "));
        let points = mounts.filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
        let name = format!("numapilot-{name}-{}", std::process::id());
        let groups = points.map(|point| point.join(&name));
        groups.into_iter().find(|group| fs::create_dir(group).is_ok()).map(Self)
    }

    /// Moves a process into the group. Returns whether the kernel allowed it.
    #[must_use]
    pub fn join(&self, pid: &str) -> bool {
        fs::write(self.0.join("cgroup.procs"), pid).is_ok()
    }

    /// The name of the group in `/proc/PID/cgroup`, as a process in it shows it.
    ///
    /// # Panics
    /// If the process has ended.
    #[must_use]
    pub fn path_of(pid: &str) -> String {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("the process lives");
        let path = groups.lines().find_map(|line| line.strip_prefix("0::"));
        path.unwrap_or_default().to_owned()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Processes leave it a moment after they have ended.
        wait_until("the group is still in use", || fs::remove_dir(&self.0).is_ok());
    }
}
