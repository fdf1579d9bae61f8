//! What became of the threads of a run.

use crate::Note;

/// What became of the threads of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Threads and processes that were put on a CPU.
    pub placed: u32,
    /// Those left alone, because the program (or its OpenMP runtime) set their affinity.
    pub pins_itself: u32,
    /// Those the kernel refused to place: their process has other rights, or a CPU went
    /// offline or left the cpuset.
    pub refused: u32,
    /// There was no room for what processes tell each other of the CPUs that they use.
    pub has_no_occupancy_table: bool,
}

impl Outcome {
    /// What the user should know.
    #[must_use]
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        if self.has_no_occupancy_table {
            notes.push(Note::new(
                "threads",
                "there was no room in /dev/shm, nor among the temporary files, for what processes \
                 tell each other of the CPUs that they use, so that each placed its threads for \
                 itself",
                "make room in /dev/shm",
            ));
        }
        if self.pins_itself > 0 {
            notes.push(Note::new(
                "threads",
                format!(
                    "the program (or its OpenMP runtime) set the affinity of {} of its threads \
                     itself; these were left alone",
                    self.pins_itself
                ),
                "use the program's own setting for them, or --threads none",
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
                "allow it, or run again with the CPUs that are left",
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_matters_is_said() {
        assert!(Outcome { placed: 9, ..Outcome::default() }.notes().is_empty());
        assert_eq!(
            Outcome { placed: 9, pins_itself: 1, refused: 1, has_no_occupancy_table: true }
                .notes()
                .len(),
            3
        );
    }
}
