//! The environment variables that the libraries inside a target read: one table.
//!
//! The launcher sets them. A user may also set them by hand and preload the library without
//! `numapilot run`. If a value cannot be used, the library that reads it reports it on standard
//! error and changes nothing.

/// One variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The format of its value.
    pub format: &'static str,
    /// Its meaning and, after the last semicolon, its default.
    pub meaning: &'static str,
}

/// Every `NUMAPILOT_*` variable that is read inside a target.
pub const TABLE: &[Variable] = &[
    Variable {
        name: BIND_CPUS,
        format: "ordered CPU list: 0,4,8,1-3",
        meaning: "CPU of the main thread, of the first thread that it creates, and so on: each \
                  new thread takes the least occupied CPU, the first of several; none",
    },
    Variable {
        name: BIND_OCCUPANCY,
        format: "absolute path of a file that the launcher made",
        meaning: "occupancy table that all processes of the target share; each process counts its \
                  own threads",
    },
    Variable {
        name: REHOME,
        format: "bytes",
        meaning: "in a forked child, inherited private writable mappings of at least this size \
                  are copied to the node on which the child runs; none",
    },
    Variable {
        name: AGENT,
        format: "absolute path of a file that the launcher made",
        meaning: "a thread of libnumapilot_bind.so waits for requests to spread memory over nodes \
                  before it is touched; none",
    },
    Variable {
        name: ALLOC_THP,
        format: "0 or 1",
        meaning: "whether libnumapilot_alloc.so requests huge pages where they are worthwhile; 1",
    },
    Variable {
        name: ALLOC_BACKGROUND_THREAD,
        format: "0 or 1",
        meaning: "whether libnumapilot_alloc.so may start a thread that returns idle memory while \
                  the program is idle; 1",
    },
    Variable {
        name: ALLOC_LARGE,
        format: "local or interleave",
        meaning: "placement of the pages of blocks of 1 MiB and more of libnumapilot_alloc.so: on \
                  the node that first touches them, or on all nodes in turn; local",
    },
    Variable {
        name: ALLOC_ORIGIN,
        format: "0 or 1",
        meaning: "whether an object that is freed on another node, or by another thread, returns \
                  there; 1",
    },
    Variable {
        name: ALLOC_SHARING,
        format: "0 or 1",
        meaning: "whether the threads of a node allocate from the same huge pages (with 0, each \
                  thread takes 2 MiB at a time); 1",
    },
    Variable {
        name: ALLOC_HARDEN,
        format: "0 or 1",
        meaning: "whether every free is checked in full, objects are reused in random order \
                  and large blocks end at an inaccessible page; 0",
    },
    Variable {
        name: ALLOC_STATS,
        format: "text, json or prometheus",
        meaning: "libnumapilot_alloc.so writes statistics of its memory in this format when the \
                  program ends; none",
    },
    Variable {
        name: ALLOC_STATS_FILE,
        format: "path, with %p for the process id",
        meaning: "file for the statistics, which is replaced; standard error",
    },
    Variable {
        name: ALLOC_STATS_SIGNAL,
        format: "number of a signal",
        meaning: "signal on which the statistics are written, as text unless \
                  NUMAPILOT_ALLOC_STATS sets another format; none",
    },
    Variable {
        name: ALLOC_PROFILE,
        format: "path, with %p for the process id",
        meaning: "libnumapilot_alloc.so samples the memory that each call site holds, and writes \
                  a profile in pprof's format to this file when the program ends and on \
                  NUMAPILOT_ALLOC_STATS_SIGNAL; none",
    },
    Variable {
        name: ALLOC_PROFILE_PERIOD,
        format: "bytes",
        meaning: "mean number of allocated bytes between two samples; 524288",
    },
];

/// Ordered CPU list of `libnumapilot_bind.so`.
pub const BIND_CPUS: &str = "NUMAPILOT_BIND_CPUS";
/// Path of the occupancy table of `libnumapilot_bind.so`.
pub const BIND_OCCUPANCY: &str = "NUMAPILOT_BIND_OCCUPANCY";
/// Rehoming of inherited memory in forked children by `libnumapilot_bind.so`.
pub const REHOME: &str = "NUMAPILOT_REHOME";
/// Requests to the agent of `libnumapilot_bind.so`.
pub const AGENT: &str = "NUMAPILOT_AGENT";
/// Huge pages in `libnumapilot_alloc.so`.
pub const ALLOC_THP: &str = "NUMAPILOT_ALLOC_THP";
/// Placement of large blocks in `libnumapilot_alloc.so`.
pub const ALLOC_LARGE: &str = "NUMAPILOT_ALLOC_LARGE";
/// Origin-aware memory in `libnumapilot_alloc.so`.
pub const ALLOC_ORIGIN: &str = "NUMAPILOT_ALLOC_ORIGIN";
/// Incremental sharing in `libnumapilot_alloc.so`.
pub const ALLOC_SHARING: &str = "NUMAPILOT_ALLOC_SHARING";
/// Full checks in `libnumapilot_alloc.so`.
pub const ALLOC_HARDEN: &str = "NUMAPILOT_ALLOC_HARDEN";
/// Statistics that `libnumapilot_alloc.so` writes when the program ends.
pub const ALLOC_STATS: &str = "NUMAPILOT_ALLOC_STATS";
/// File to which the statistics are written.
pub const ALLOC_STATS_FILE: &str = "NUMAPILOT_ALLOC_STATS_FILE";
/// Signal on which the statistics are written.
pub const ALLOC_STATS_SIGNAL: &str = "NUMAPILOT_ALLOC_STATS_SIGNAL";
/// Heap profile of `libnumapilot_alloc.so`.
pub const ALLOC_PROFILE: &str = "NUMAPILOT_ALLOC_PROFILE";
/// Bytes between two samples of the heap profile.
pub const ALLOC_PROFILE_PERIOD: &str = "NUMAPILOT_ALLOC_PROFILE_PERIOD";
/// Background thread of `libnumapilot_alloc.so`.
pub const ALLOC_BACKGROUND_THREAD: &str = "NUMAPILOT_ALLOC_BACKGROUND_THREAD";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ours_and_unique() {
        for (i, variable) in TABLE.iter().enumerate() {
            assert!(variable.name.starts_with("NUMAPILOT_"));
            assert!(TABLE[..i].iter().all(|other| other.name != variable.name));
        }
    }
}
