//! The memory policy of a program, and the kernel's refusals.
//!
//! Source: set_mempolicy(2), Documentation/admin-guide/mm/numa_memory_policy.rst.

use std::io;

use numapilot_sys::mempolicy::{self, Mode};
use numapilot_topology::NodeSet;

use super::Prepared;
use crate::Note;
use crate::targets::MemoryTarget;

impl Prepared {
    /// Sets the policy, or notes why the kernel would refuse it.
    pub(super) fn set_memory(&mut self, target: Option<MemoryTarget>) {
        let Some(MemoryTarget { mode, flags, nodes }) = target else { return };
        let error = match attempt(mode, flags, &nodes) {
            Ok(()) => return self.take(mode, flags, &nodes),
            Err(error) => error,
        };
        if flags != 0
            && error.raw_os_error() == Some(libc::EINVAL)
            && attempt(mode, 0, &nodes).is_ok()
        {
            self.notes.push(Note::new(
                "memory balancing",
                format!("this kernel does not sample memory under {}", mode_name(mode)),
                "use Linux 5.12 or newer for bind, 6.11 or newer for preferred-many",
            ));
            return self.take(mode, 0, &nodes);
        }
        self.notes.push(refused(mode, &error));
    }

    fn take(&mut self, mode: Mode, flags: i32, nodes: &NodeSet) {
        self.steps.memory = Some((mode, flags, nodes.as_words().to_vec()));
    }
}

/// All flags of a mode.
pub(crate) const FLAGS: i32 =
    mempolicy::F_STATIC_NODES | mempolicy::F_RELATIVE_NODES | mempolicy::F_NUMA_BALANCING;

const NO_EFFECT: &str = "it was accepted but has no effect (get_mempolicy shows another policy)";

/// Tries a policy in a new thread, because a policy belongs to a thread and that of this thread
/// must not change, and reads it back. What the kernel or a seccomp filter refuses here, it would
/// refuse in the child.
fn attempt(mode: Mode, flags: i32, nodes: &NodeSet) -> io::Result<()> {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                mempolicy::set_mempolicy(mode, flags, nodes.as_words())?;
                match current_mode() {
                    Ok(got) if got != Some(mode) => Err(io::Error::other(NO_EFFECT)),
                    // A filter may refuse only the reading. The check of the running program shows
                    // more.
                    Ok(_) | Err(_) => Ok(()),
                }
            })
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the probing thread died")))
    })
}

/// The mode of this thread's policy; `None` if it is unknown.
pub(super) fn current_mode() -> io::Result<Option<Mode>> {
    mempolicy::get_mempolicy().map(|(raw, _)| Mode::from_raw(raw & !FLAGS))
}

/// The name of the mode in profiles and options.
pub(crate) fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Default => "default",
        Mode::Local => "local",
        Mode::Preferred => "preferred",
        Mode::Bind => "bind",
        Mode::Interleave => "interleave",
        Mode::PreferredMany => "preferred-many",
        Mode::WeightedInterleave => "weighted-interleave",
    }
}

fn refused(mode: Mode, error: &io::Error) -> Note {
    let subject = format!("memory {}", mode_name(mode));
    match error.raw_os_error() {
        Some(libc::EPERM) => Note::new(
            subject,
            "set_mempolicy is not permitted here (a seccomp filter, as in containers), so the \
             program keeps its inherited policy",
            "allow set_mempolicy and mbind in the filter \
             (Docker: --cap-add SYS_NICE, or a profile by --security-opt seccomp=FILE)",
        ),
        Some(libc::ENOSYS) => Note::new(
            subject,
            "this kernel has no NUMA support, or a seccomp filter hides it, so no policy can be \
             set",
            "use a kernel built with CONFIG_NUMA, or allow set_mempolicy in the filter",
        ),
        Some(libc::EINVAL) if mode == Mode::WeightedInterleave => Note::new(
            subject,
            "this kernel has no weighted interleave, so the program keeps its inherited policy",
            "use Linux 6.9 or newer, or interleave (-i), which has no weights",
        ),
        Some(libc::EINVAL) if mode == Mode::PreferredMany => Note::new(
            subject,
            "this kernel has no preferred-many policy, so the program keeps its inherited policy",
            "use Linux 5.15 or newer, or one preferred node (-p)",
        ),
        Some(libc::EINVAL) => Note::new(
            subject,
            format!(
                "set_mempolicy: {error}: none of the nodes has memory that the cpuset of this \
                 process allows, so the program keeps its inherited policy"
            ),
            "check the nodes with `numapilot topo`; docker: --cpuset-mems; \
             systemd: AllowedMemoryNodes=",
        ),
        _ => Note::new(
            subject,
            format!("set_mempolicy: {error}, so the program keeps its inherited policy"),
            "check the nodes with `numapilot topo`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(mode: Mode, errno: i32) -> String {
        refused(mode, &io::Error::from_raw_os_error(errno)).to_string()
    }

    #[test]
    fn every_refusal_names_cause_and_remedy() {
        assert!(cause(Mode::Bind, libc::EPERM).contains("seccomp"));
        assert!(cause(Mode::Local, libc::ENOSYS).contains("CONFIG_NUMA"));
        assert!(cause(Mode::WeightedInterleave, libc::EINVAL).contains("6.9"));
        assert!(cause(Mode::PreferredMany, libc::EINVAL).contains("5.15"));
        assert!(cause(Mode::Bind, libc::EINVAL).contains("numapilot topo"));
    }

    #[test]
    fn an_attempt_leaves_this_thread_alone() {
        let before = mempolicy::get_mempolicy().unwrap();
        attempt(Mode::Local, 0, &NodeSet::new()).unwrap();
        assert_eq!(mempolicy::get_mempolicy().unwrap(), before);
    }
}
