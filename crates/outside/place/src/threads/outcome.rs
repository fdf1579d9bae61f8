//! The result of thread placement in a run.

use crate::Note;

/// The result of thread placement in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of threads and processes that were pinned to a CPU.
    pub placed: u32,
    /// Number of those left alone because the program (or its OpenMP runtime) set their affinity.
    pub pins_itself: u32,
    /// Number of those that the kernel refused to place: their process has other rights, or a CPU
    /// went offline or left the cpuset.
    pub refused: u32,
    /// Whether there was no room for the CPU-occupancy table.
    pub has_no_occupancy_table: bool,
}

impl Outcome {
    /// The notes for the user.
    #[must_use]
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        if self.has_no_occupancy_table {
            notes.push(Note::new(
                "threads",
                "there was no room in /dev/shm or in the directory for temporary files for the \
                 CPU-occupancy table, which the processes share, so each placed its threads for \
                 itself",
                "make room in /dev/shm",
            ));
        }
        if self.pins_itself > 0 {
            notes.push(Note::new(
                "threads",
                format!(
                    "the program (or its OpenMP runtime) set the affinity of {} of its threads \
                     itself; numapilot left these alone",
                    self.pins_itself
                ),
                "use the program's own setting for threads, or --threads none",
            ));
        }
        if self.refused > 0 {
            notes.push(Note::new(
                "threads",
                format!(
                    "{} threads could not be placed \
                     (their process has other rights, a seccomp filter forbids \
                     sched_setaffinity, or a CPU went offline or left the cpuset)",
                    self.refused
                ),
                "allow it, or run again with the remaining CPUs",
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_matters_is_reported() {
        assert!(Outcome { placed: 9, ..Outcome::default() }.notes().is_empty());
        assert_eq!(
            Outcome { placed: 9, pins_itself: 1, refused: 1, has_no_occupancy_table: true }
                .notes()
                .len(),
            3
        );
    }
}
