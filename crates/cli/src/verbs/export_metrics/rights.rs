//! Gives up the rights that the exporter does not need, so that a fault in it is worth less to an
//! attacker when it runs as root.
//!
//! Source: capabilities(7), PR_SET_NO_NEW_PRIVS(2const). It stays the same user.

use anyhow::Context;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
};

/// To inspect and count the processes of others. Before Linux 5.8 there is no `PERFMON`.
const READING: CapabilitySet =
    CapabilitySet::SYS_PTRACE.union(CapabilitySet::PERFMON).union(CapabilitySet::DAC_READ_SEARCH);
/// To write into a directory of another user.
const WRITING: CapabilitySet = READING.union(CapabilitySet::DAC_OVERRIDE);

/// Keeps the capabilities to read processes, and to write a file if it does. Call it before a
/// thread is started: each thread has its own.
///
/// # Errors
/// If the kernel refuses, which it has no reason for.
pub fn give_up_unneeded(writes_files: bool) -> anyhow::Result<()> {
    const WHAT: &str = "cannot give up rights that are not needed";
    let needed = if writes_files { WRITING } else { READING };
    let held = capabilities(None).context(WHAT)?;
    let left = CapabilitySets {
        effective: held.effective & needed,
        permitted: held.permitted & needed,
        inheritable: CapabilitySet::empty(),
    };
    // A program that is executed gets no more rights than these.
    set_no_new_privs(true).context(WHAT)?;
    set_capabilities(None, left).context(WHAT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread, because only its rights change.
    #[test]
    fn rights_are_given_up_for_good() {
        let left = std::thread::spawn(|| {
            give_up_unneeded(false).unwrap();
            capabilities(None).unwrap()
        });
        let left = left.join().unwrap();
        assert!(READING.contains(left.permitted) && READING.contains(left.effective));
        assert!(left.inheritable.is_empty());
    }
}
