//! The allocator's interface to the kernel and the processor: system calls, a lock, CPUs, random
//! numbers, messages, files, and threads that the C library does not know.

pub mod bare_thread;
pub mod cache_line;
pub mod cpus;
pub mod decay_request;
pub mod file;
pub mod kernel;
pub mod lock;
pub mod once;
pub mod output;
pub mod prefetch;
pub mod process;
pub mod random;
pub mod report;
pub mod rights;
pub mod thread_pointer;
