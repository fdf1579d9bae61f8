//! The CPUs of a program, and the kernel's refusals.
//!
//! Source: sched_setaffinity(2): the kernel drops CPUs outside the cpuset from the mask without an
//! error, unless none is left.

use std::io;

use numapilot_sys::affinity;
use numapilot_topology::CpuSet;

use super::Prepared;
use crate::Note;

impl Prepared {
    /// Sets the CPUs, or notes why this process may set none. If this process may use none of the
    /// CPUs, they are set nevertheless, and the start fails.
    pub(super) fn set_cpus(&mut self, cpus: Option<CpuSet>) {
        let Some(cpus) = cpus else { return };
        match attempt(&cpus) {
            Ok(got) => {
                let lost = cpus.difference(&got);
                if !lost.is_empty() {
                    self.notes.push(Note::new(
                        format!("CPUs {cpus}"),
                        format!("the cpuset of this process does not include {lost}"),
                        WIDEN,
                    ));
                }
                self.steps.cpus = Some(cpus.as_words().to_vec());
            }
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                self.steps.cpus = Some(cpus.as_words().to_vec());
            }
            Err(error) => self.notes.push(refused(&cpus, &error)),
        }
    }
}

/// How to add CPUs to a cpuset.
pub(crate) const WIDEN: &str = "widen the cpuset (docker: --cpuset-cpus; systemd: AllowedCPUs=)";

/// Sets the affinity of a new thread, which does not change that of this thread, and reads it back.
/// What the kernel or a seccomp filter refuses here, it would refuse in the child.
pub(crate) fn attempt(cpus: &CpuSet) -> io::Result<CpuSet> {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                affinity::set(0, cpus.as_words())?;
                affinity::get(0).map(|words| CpuSet::from_words(&words))
            })
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the probing thread died")))
    })
}

fn refused(cpus: &CpuSet, error: &io::Error) -> Note {
    let subject = format!("CPUs {cpus}");
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => Note::new(
            subject,
            format!(
                "sched_setaffinity is not permitted here ({error}; a seccomp filter, as in \
                 containers and services), so the program keeps its inherited CPUs"
            ),
            "allow sched_setaffinity in the filter (systemd: SystemCallFilter=@resources; \
             Docker: a profile by --security-opt seccomp=FILE)",
        ),
        _ => Note::new(
            subject,
            format!("sched_setaffinity: {error}, so the program keeps its inherited CPUs"),
            "check the CPUs with `numapilot topo`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_leaves_this_thread_alone() {
        let before = affinity::get(0).unwrap();
        let first = CpuSet::from_words(&before).first().unwrap();
        let one: CpuSet = [first].into_iter().collect();
        assert_eq!(attempt(&one).unwrap(), one);
        assert_eq!(affinity::get(0).unwrap(), before);
    }

    #[test]
    fn every_refusal_names_cause_and_remedy() {
        let cpus = CpuSet::parse_list("3").unwrap();
        let note = |errno| refused(&cpus, &io::Error::from_raw_os_error(errno)).to_string();
        for errno in [libc::EPERM, libc::ENOSYS] {
            assert!(note(errno).contains("seccomp") && note(errno).contains("allow"));
        }
        assert!(note(libc::EIO).contains("sched_setaffinity") && note(libc::EIO).contains("topo"));
    }
}
