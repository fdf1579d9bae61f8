//! The result of thread placement in a run.

use std::path::PathBuf;

use super::obstacle::Obstacle;
use crate::Note;

/// At most this many programs are named in a note.
const NAMED: usize = 3;

/// A program whose threads were placed from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromOutside {
    /// Its file, if that could be read.
    pub program: Option<PathBuf>,
    /// Why the library did not place them.
    pub obstacle: Obstacle,
    /// Their number, in all its processes.
    pub threads: u32,
}

/// The result of thread placement in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// The programs whose threads were placed from outside, unless that was reported before they
    /// started.
    pub from_outside: Vec<FromOutside>,
}

impl Outcome {
    /// The note about what was placed from outside, which is an error under `--strict`.
    #[must_use]
    pub fn note_from_outside(&self) -> Option<Note> {
        if self.from_outside.is_empty() {
            return None;
        }
        let mut named: Vec<String> = self.from_outside.iter().take(NAMED).map(text).collect();
        let more = self.from_outside.len().saturating_sub(NAMED);
        if more > 0 {
            named.push(format!("{more} more"));
        }
        let cause = format!(
            "the threads of some programs were placed from outside, a few ms after they started: {}",
            named.join(", ")
        );
        Some(Note::new("threads", cause, "threads that live longer are not affected"))
    }

    /// The other notes for the user.
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

/// `4 threads of sleep (it is statically linked)`.
fn text(placed: &FromOutside) -> String {
    let FromOutside { program, obstacle, threads } = placed;
    let name = program.as_ref().and_then(|program| program.file_name());
    let name = name.map_or("another program".into(), |name| name.to_string_lossy());
    let s = if *threads == 1 { "" } else { "s" };
    format!("{threads} thread{s} of {name} ({obstacle})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_were_placed_from_outside_are_named() {
        assert_eq!(Outcome { placed: 9, ..Outcome::default() }.note_from_outside(), None);
        let placed = |program: Option<&str>, threads| FromOutside {
            program: program.map(PathBuf::from),
            obstacle: Obstacle::Static,
            threads,
        };
        let all = [Some("/bin/a"), None, Some("/bin/c"), Some("/bin/d")];
        let from_outside = all.into_iter().zip([1, 2, 3, 4]).map(|(p, n)| placed(p, n)).collect();
        let note = Outcome { from_outside, ..Outcome::default() }.note_from_outside().unwrap();
        assert!(
            note.cause.ends_with(
                ": 1 thread of a (it is statically linked), 2 threads of another program (it is \
                 statically linked), 3 threads of c (it is statically linked), 1 more"
            ),
            "{}",
            note.cause
        );
    }

    #[test]
    fn only_what_matters_is_reported() {
        assert!(Outcome { placed: 9, ..Outcome::default() }.notes().is_empty());
        assert_eq!(
            Outcome {
                placed: 9,
                pins_itself: 1,
                refused: 1,
                has_no_occupancy_table: true,
                from_outside: Vec::new()
            }
            .notes()
            .len(),
            3
        );
    }
}
