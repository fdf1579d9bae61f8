//! `libnumapilot_bind.so`: places every new thread of an unmodified program.
//!
//! Rides inside a target by `LD_PRELOAD` and puts each thread on one CPU before its first
//! instruction: binding as in numalloc section 3.2, with the placements of
//! systematic-numa-study section 3.2. What it does is told by the environment table in
//! `numapilot-bind`; without those variables it passes every call through.
//!
//! ```text
//!  program loaded --> load, init: list, occupancy table, main thread takes the first CPU
//!  pthread_create --> create: take a CPU, create, pin the new thread, let it go
//!  fork           --> process::forked: the child is a new process and takes a CPU
//!  exec           --> init again: the occupancy table knows the process, which keeps its CPU
//!                 --> rehome: the child's memory follows it, if NUMAPILOT_REHOME says so
//!                 --> agent: a thread that does what NUMAPILOT_AGENT's file asks
//!  sched_*affinity -> affinity: the program's own wish wins and is noted
//!  numapilot_bind_* : what the other libraries of ours that are loaded beside this one ask
//! ```
//!
//! Rules of the house: no allocation except one cell per thread on its way, `errno`
//! untouched, nothing printed unless a variable cannot be used, and whatever fails leaves
//! the program as it would be without this library.
#![cfg_attr(not(test), no_std)]

mod affinity;
mod agent;
mod create;
mod env;
mod init;
mod kernel;
mod load;
mod next;
mod process;
mod rehome;
mod state;

numapilot_bind::freestanding!(
    // SAFETY: takes nothing and does not return.
    unsafe { libc::abort() }
);
