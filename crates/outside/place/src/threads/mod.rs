//! Thread placement of an unmodified program: sparse, dense or an order of CPUs.
//!
//! ```text
//!  order(machine, allowed, placement) --> CPUs in order
//!                                           |
//!  Placement::new(order, program) ----------+--> variables(), library(), note()
//!        |                                          (environment, LD_PRELOAD)
//!        '--start()--> Session: the occupancy table file; dropped after the program has ended
//!                         |-- variable()   a further variable, for this run
//!                         |-- watch(pid)   places threads that the library cannot reach
//!                         '-- finish()     Outcome: placed, pins itself, refused
//! ```
//!
//! A program in which the library places the threads is watched too, because it may start programs
//! in which the library cannot. Processes with the library are left to the library.

mod obstacle;
mod order;
mod outcome;
mod outside;
mod pinner;
mod session;
mod watch;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use numapilot_bind::env::BIND_CPUS;
use numapilot_topology::CpuId;

pub use obstacle::{LIBRARY, Obstacle, obstacle};
pub(crate) use obstacle::{library, obstacle_of};
pub use order::order;
pub use outcome::{FromOutside, Outcome};
pub use session::Session;
use watch::Reported;
pub use watch::Watcher;

use crate::Note;

/// Variables with which a user places the threads of an OpenMP program. If one of them is set,
/// numapilot does not set any.
const OPENMP: [&str; 4] = ["OMP_PLACES", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"];

/// How the threads of one program are placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    order: Vec<CpuId>,
    library: Option<PathBuf>,
    obstacle: Option<Obstacle>,
}

impl Placement {
    /// Decides how the threads of `program` (the path of its file) are placed on the CPUs of
    /// `order`, which must not be empty. Without a file, the program is assumed to be able to load
    /// the library.
    #[must_use]
    pub fn new(order: Vec<CpuId>, program: Option<&Path>) -> Self {
        let obstacle = program.and_then(obstacle::obstacle_of);
        let library = obstacle::library();
        match obstacle {
            None if library.is_none() => {
                Self { order, library, obstacle: Some(Obstacle::NoLibrary) }
            }
            Some(obstacle) if !obstacle.spares_children() => {
                Self { order, library: None, obstacle: Some(obstacle) }
            }
            obstacle => Self { order, library, obstacle },
        }
    }

    /// The placement of a program that is not known yet and can load the library, if there is one.
    #[must_use]
    pub(crate) fn with_library(order: Vec<CpuId>, library: Option<&Path>) -> Self {
        Self { order, library: library.map(Path::to_owned), obstacle: None }
    }

    /// The CPUs in the order in which threads take them.
    #[must_use]
    pub fn order(&self) -> &[CpuId] {
        &self.order
    }

    /// The library for `LD_PRELOAD`, if the program or the programs that it starts can load it.
    #[must_use]
    pub fn library(&self) -> Option<&Path> {
        self.library.as_deref()
    }

    /// The variables for the program. `inherited` tells which variables it already has.
    ///
    /// OpenMP runtimes place their own threads in the same order (places are CPUs, and `close`
    /// takes them in order). Go reads its number of CPUs from its affinity, since 1.25 repeatedly,
    /// and would take the CPU of one placed thread for all CPUs.
    #[must_use]
    pub fn variables(&self, inherited: impl Fn(&OsStr) -> bool) -> Vec<(&'static str, String)> {
        let has = |name: &&str| inherited(OsStr::new(name));
        let mut variables = vec![(BIND_CPUS, list(&self.order))];
        if !OPENMP.iter().any(has) {
            let places: Vec<String> = self.order.iter().map(|c| format!("{{{c}}}")).collect();
            variables.push(("OMP_PLACES", places.join(",")));
            variables.push(("OMP_PROC_BIND", "close".to_owned()));
        }
        if !has(&"GOMAXPROCS") {
            variables.push(("GOMAXPROCS", self.order.len().to_string()));
        }
        variables
    }

    /// A note about the limits of this placement. `watched` tells whether a process of numapilot
    /// stays and places the threads that the library cannot.
    #[must_use]
    pub fn note(&self, watched: bool) -> Option<Note> {
        // A program that is not there, or its interpreter, is reported when it is started.
        let is_missing =
            |obstacle: &&Obstacle| **obstacle == Obstacle::Unreadable(io::ErrorKind::NotFound);
        let obstacle = self.obstacle.as_ref().filter(|obstacle| !is_missing(obstacle))?;
        let (effect, other) = if watched {
            (
                "they are placed from outside, a few ms after they start",
                "threads that live longer are not affected",
            )
        } else {
            ("they run where the kernel puts them", "start it by numapilot run, which places them")
        };
        let remedy = match obstacle {
            Obstacle::NoLibrary => {
                "install it next to numapilot, in ../lib/numapilot, \
                                    or name its directory in $NUMAPILOT_LIB_DIR"
            }
            _ => other,
        };
        Some(Note::new("threads", format!("{obstacle}, so {effect}"), remedy))
    }

    /// Creates the session of one run: see [`Session`].
    #[must_use]
    pub fn start(&self) -> Session {
        let reported = match &self.obstacle {
            None => Reported::Nothing,
            Some(Obstacle::NoLibrary) => Reported::All,
            Some(_) => Reported::Program,
        };
        Session::new(self.order.clone(), reported)
    }
}

fn list(order: &[CpuId]) -> String {
    order.iter().map(CpuId::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement() -> Placement {
        Placement {
            order: [0, 4, 8].map(CpuId).to_vec(),
            library: None,
            obstacle: Some(Obstacle::Static),
        }
    }

    #[test]
    fn the_environment_says_the_order_three_times() {
        let variables = placement().variables(|_| false);
        assert_eq!(
            variables,
            [
                ("NUMAPILOT_BIND_CPUS", "0,4,8".to_owned()),
                ("OMP_PLACES", "{0},{4},{8}".to_owned()),
                ("OMP_PROC_BIND", "close".to_owned()),
                ("GOMAXPROCS", "3".to_owned()),
            ]
        );
    }

    #[test]
    fn what_the_user_set_is_kept() {
        let set = |name: &'static str| {
            let names: Vec<&str> =
                placement().variables(|n| n == name).into_iter().map(|(n, _)| n).collect();
            names
        };
        for name in OPENMP {
            assert_eq!(set(name), ["NUMAPILOT_BIND_CPUS", "GOMAXPROCS"]);
        }
        assert_eq!(set("GOMAXPROCS"), ["NUMAPILOT_BIND_CPUS", "OMP_PLACES", "OMP_PROC_BIND"]);
    }

    #[test]
    fn a_missing_program_is_reported_by_the_start_alone() {
        let program = Path::new("/nosuch/program");
        let placement = Placement::new(vec![CpuId(0)], Some(program));
        assert_eq!(placement.note(true), None);
    }

    #[test]
    fn the_note_names_cause_and_remedy() {
        let note = |watched| placement().note(watched).unwrap().to_string();
        assert!(note(true).starts_with("threads: it is statically linked, so they are placed"));
        assert!(note(false).starts_with("threads: it is statically linked, so they run where"));
        assert!(note(false).ends_with("; start it by numapilot run, which places them"));
    }
}
