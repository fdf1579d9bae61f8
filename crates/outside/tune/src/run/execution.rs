//! A program that has run: its status, its output and its memory.

use std::os::unix::process::ExitStatusExt;

use numapilot_place::Finished;

use crate::evidence::Failure;

/// A program that has run.
#[derive(Clone, Debug)]
pub struct Execution {
    /// Its status and resource usage.
    pub finished: Finished,
    /// The end of its output, standard output and error in the order written.
    pub text: String,
    /// Its peak of resident memory, including huge pages of hugetlbfs.
    pub peak_rss_bytes: u64,
}

impl Execution {
    /// Why the run failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        if self.finished.timed_out {
            return Some(Failure::Timeout);
        }
        let status = self.finished.status;
        let signal = status.signal().map(Failure::Signal);
        signal.or_else(|| status.code().filter(|&code| code != 0).map(Failure::Exit))
    }
}
