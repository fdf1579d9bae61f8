//! The definitions that the launcher and the libraries inside a target share.
//!
//! ```text
//!  launcher --NUMAPILOT_* variables--> library in every process of the target
//!      ^                                        |
//!      '------------- occupancy table (shared file) -----'  threads per CPU, failures
//! ```
//!
//! The launcher passes the CPUs in the order in which threads take them. That order *is* the
//! placement (sparse, dense or the user's own), so this crate does not deal with nodes.
//!
//! The crate is `no_std` and has no dependencies. The preloaded library and the launcher both link
//! it, so the environment table and the layout of the occupancy table are defined once.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod agent;
pub mod cpus;
pub mod env;
pub mod occupancy;
mod processes;
pub mod running_threads;
pub mod sysfs;
mod weak;

/// Defines what the linker requires of a library without `std`: a panic handler, which runs the
/// given code and ends the process, and the symbol `rust_eh_personality`.
///
/// For the preload libraries, each of which is linked separately.
#[macro_export]
macro_rules! freestanding {
    ($abort:expr) => {
        /// A foreign process supports no unwinding and no report.
        #[cfg(not(test))]
        #[panic_handler]
        fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
            $abort
        }

        // The compiled `core` library names this function in its unwind tables. Nothing here
        // unwinds, so it is never called. It is hidden, because a program that loads the shared
        // Rust library (as rustc does) must find the function of that library.
        core::arch::global_asm!(
            ".pushsection .text",
            ".globl rust_eh_personality",
            ".hidden rust_eh_personality",
            "rust_eh_personality: .long 0",
            ".popsection",
        );
    };
}
