//! `libnumapilot_bind.so`: places every new thread of an unmodified program.
//!
//! It is loaded into a target by `LD_PRELOAD` and pins each thread to one CPU before its first
//! instruction: binding as in numalloc section 3.2, with the placements of systematic-numa-study
//! section 3.2. The variables in the environment table of `numapilot-bind` control it; without them
//! it passes every call on.
//!
//! ```text
//!  program loaded --> load, init: CPU list, occupancy table; the main thread takes the first CPU
//!  pthread_create --> create: take a CPU, create, pin the new thread, let it go
//!  fork           --> process::forked: the child is a new process and takes a CPU
//!  exec           --> exec: the new program may use all CPUs, if it cannot load this library
//!                 --> init again: the occupancy table knows the process, which keeps its CPU
//!                 --> rehome: the child's memory follows it, if NUMAPILOT_REHOME is set
//!                 --> agent: a thread that carries out the requests in NUMAPILOT_AGENT's file
//!  sched_*affinity -> affinity: the program's own choice takes precedence and is noted
//!                 --> openmp: that of an OpenMP runtime is answered from the occupancy table
//!  numapilot_bind_* : for the other preloaded libraries of numapilot
//! ```
//!
//! Rules: the library allocates nothing but one cell for each thread that is being created,
//! preserves `errno`, and prints nothing unless a variable cannot be used. After any failure the
//! program runs as it would without this library.
#![cfg_attr(not(test), no_std)]

mod affinity;
mod agent;
mod create;
mod env;
mod exec;
mod init;
mod kernel;
mod load;
mod next;
mod openmp;
mod process;
mod rehome;
mod state;

numapilot_bind::freestanding!(
    // SAFETY: takes no argument and does not return.
    unsafe { libc::abort() }
);
