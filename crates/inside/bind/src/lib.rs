//! What the libraries inside a target and the launcher outside agree on.
//!
//! ```text
//!  launcher --NUMAPILOT_* variables--> library in every process of the target
//!      ^                                        |
//!      '------------- occupancy table (shared file) -----'  threads per CPU, what went wrong
//! ```
//!
//! The launcher hands down the CPUs in the order in which threads take them; that order
//! *is* the placement (sparse, dense or the user's own), so nothing in here knows about
//! nodes.
//!
//! `no_std` and without dependencies: the preloaded library links it, and so does the
//! launcher, so that the environment table and the occupancy table's layout exist once.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod agent;
pub mod cpus;
pub mod env;
pub mod occupancy;
mod processes;
pub mod sysfs;
mod weak;

/// What a library without `std` owes the linker: a panic handler, which does what is given and ends
/// the process, and a name.
///
/// For the preload libraries, each of which is linked by itself.
#[macro_export]
macro_rules! freestanding {
    ($abort:expr) => {
        /// There is no unwinding and nobody to report to inside a foreign process.
        #[cfg(not(test))]
        #[panic_handler]
        fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
            $abort
        }

        // The compiled `core` library names this function in its unwind tables; nothing here
        // unwinds, so it is never called. Hidden: a program that loads the shared Rust library
        // (rustc does) must find that one's.
        core::arch::global_asm!(
            ".pushsection .text",
            ".globl rust_eh_personality",
            ".hidden rust_eh_personality",
            "rust_eh_personality: .long 0",
            ".popsection",
        );
    };
}
