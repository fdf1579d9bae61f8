//! Counters and figures of a running program.
