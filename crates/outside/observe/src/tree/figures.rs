//! Resource usage and memory of all processes of a tree.

use std::io;
use std::time::Duration;

use numapilot_sys::process;
use procfs::ProcError;

use super::Tree;
use super::member::Member;
use super::used::Used;
use crate::node_memory::{NodeMemoryError, node_bytes};
use crate::numa_maps::NodeBytes;
use crate::thread_group::open_memory_file;
use crate::{Footprint, Resident};

impl Tree {
    /// Usage of all members, including those that have ended.
    #[must_use]
    pub fn used(&self) -> Used {
        self.members.values().fold(self.departed, |sum, m| sum.plus(m.used))
    }

    /// CPU time of all members, for intervals that are too short for the clock ticks of
    /// [`Tree::used`].
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        let of = |(pid, member): (&i32, &Member)| match process::cpu_time(*pid) {
            Ok(own) => own + member.used_by_children,
            // It has ended since the last look.
            Err(_) => member.used.user() + member.used.system(),
        };
        let departed = self.departed.user() + self.departed.system();
        self.members.iter().map(of).sum::<Duration>() + departed
    }

    /// Nanoseconds for which each running thread has waited for a CPU so far (`run_delay`,
    /// Documentation/scheduler/sched-stats.rst). Empty on a kernel without CONFIG_SCHED_INFO.
    pub fn run_delays(&self) -> impl Iterator<Item = (i32, u64)> + '_ {
        self.thread_files("schedstat")
            .filter_map(|(tid, text)| Some((tid, text.split_whitespace().nth(1)?.parse().ok()?)))
    }

    /// Resident bytes of all members, including huge pages of hugetlbfs. Shared pages count for
    /// each member.
    #[must_use]
    pub fn rss_bytes(&self) -> u64 {
        self.resident().map(|resident| resident.now_bytes).sum()
    }

    /// Resident memory of each member.
    pub fn resident(&self) -> impl Iterator<Item = Resident> + '_ {
        self.members.values().filter_map(|member| Resident::of(&member.process))
    }

    /// Memory of all members. Shared pages count once if the kernel reports shares (`pss_bytes`). A
    /// member that ends meanwhile adds nothing.
    ///
    /// # Errors
    /// Why there is no figure: members that this user may not inspect, or Linux before 4.14.
    pub fn footprint(&self) -> Result<Footprint, String> {
        let mut total = Footprint::default();
        for member in self.members.values() {
            let text = match open_memory_file(&member.process, "smaps_rollup") {
                // Reading fails if the process ends, and the file of a zombie is empty.
                Ok(file) => io::read_to_string(file).unwrap_or_default(),
                Err(ProcError::PermissionDenied(_)) => {
                    return Err(format!(
                        "/proc/{}/smaps_rollup may not be read: run numapilot as root \
                         (CAP_SYS_PTRACE)",
                        member.process.pid
                    ));
                }
                Err(_) if member.runs_now() => {
                    return Err("this kernel has no smaps_rollup (Linux 4.14 has)".to_owned());
                }
                Err(_) => continue,
            };
            total = total.plus(Footprint::parse(&text));
        }
        Ok(total)
    }

    /// Largest known resident size of a single member: [`Resident`].
    #[must_use]
    pub fn peak_rss_bytes(&self) -> Option<u64> {
        self.resident().map(|resident| resident.peak_bytes).max()
    }

    /// Bytes of all members on each node. A member that ends meanwhile adds nothing.
    ///
    /// # Errors
    /// Why there is no figure: a kernel without NUMA support, or members that this user may not
    /// inspect.
    pub fn node_bytes(&self) -> Result<NodeBytes, String> {
        let mut total = NodeBytes::new();
        for process in self.processes() {
            let bytes = node_bytes(process).map_err(|error| match error {
                NodeMemoryError::NoNuma => error.to_string(),
                _ => format!("/proc/{}/{error}", process.pid),
            })?;
            for (node, bytes) in bytes {
                *total.entry(node).or_default() += bytes;
            }
        }
        Ok(total)
    }

    /// Reads a file of every thread (`/proc/PID/task/TID/NAME`).
    pub(crate) fn thread_files(
        &self,
        name: &'static str,
    ) -> impl Iterator<Item = (i32, String)> + '_ {
        self.members.values().flat_map(move |member| {
            member.threads().filter_map(move |tid| {
                let path = format!("task/{tid}/{name}");
                let file = member.process.open_relative(path).ok()?;
                Some((tid, io::read_to_string(file).ok()?))
            })
        })
    }
}
