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
    /// Its meaning.
    pub meaning: &'static str,
}

/// Every `NUMAPILOT_*` variable that is read inside a target.
pub const TABLE: &[Variable] = &[
    Variable {
        name: BIND_CPUS,
        format: "ordered CPU list: 0,4,8,1-3",
        meaning: "CPU of the main thread, of the first thread it creates, and so on; \
                  each new thread takes the least occupied one, the first of several",
    },
    Variable {
        name: BIND_OCCUPANCY,
        format: "absolute path of a file that the launcher made",
        meaning: "occupancy shared by all processes of the target; without it \
                  each process counts for itself",
    },
    Variable {
        name: REHOME,
        format: "bytes",
        meaning: "in a forked child, private writable mappings of this size and more that were \
                  inherited are copied to the node where the child runs; nothing",
    },
    Variable {
        name: AGENT,
        format: "absolute path of a file that the launcher made",
        meaning: "a thread of libnumapilot_bind.so waits for requests to have memory spread over \
                  nodes before it is touched; nothing",
    },
    Variable {
        name: ALLOC_THP,
        format: "0 or 1",
        meaning: "whether libnumapilot_alloc.so asks for huge pages where they pay; 1",
    },
    Variable {
        name: ALLOC_BACKGROUND_THREAD,
        format: "0 or 1",
        meaning: "whether libnumapilot_alloc.so may start a thread that gives idle memory \
                  back while the program is idle too; 1",
    },
    Variable {
        name: ALLOC_LARGE,
        format: "local or interleave",
        meaning: "where the pages of blocks of 1 MiB and more of libnumapilot_alloc.so come \
                  from: the node that first touches them, or all in turns; local",
    },
    Variable {
        name: ALLOC_ORIGIN,
        format: "0 or 1",
        meaning: "whether an object freed on another node goes home to its own; 1",
    },
    Variable {
        name: ALLOC_SHARING,
        format: "0 or 1",
        meaning: "whether the threads of a node carve what they allocate out of the same huge \
                  pages; with 0 each takes 2 MiB at a time for itself; 1",
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
        meaning: "libnumapilot_alloc.so tells when the program ends what its memory is used \
                  for; nothing",
    },
    Variable {
        name: ALLOC_STATS_FILE,
        format: "path, with %p for the process's number",
        meaning: "file that the statistics replace; standard error",
    },
    Variable {
        name: ALLOC_STATS_SIGNAL,
        format: "number of a signal",
        meaning: "signal on which the statistics are written, as text unless \
                  NUMAPILOT_ALLOC_STATS says otherwise; none",
    },
    Variable {
        name: ALLOC_PROFILE,
        format: "path, with %p for the process's number",
        meaning: "libnumapilot_alloc.so samples which calls hold how much memory, and writes \
                  that to this file in pprof's format when the program ends and on \
                  NUMAPILOT_ALLOC_STATS_SIGNAL; nothing",
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
