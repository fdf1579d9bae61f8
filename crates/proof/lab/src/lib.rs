//! Emulated NUMA machines: a real Linux kernel in QEMU, with the nodes, distances and CPUs of a
//! machine description, runs unmodified programs.
//!
//! ```text
//!  Description --Shape::new--> Shape --command_line--> qemu-system-x86_64 -numa ... -plugin ...
//!                                                        | initramfs: image::build
//!                                                        | plugin: clock, streams, mailbox
//!  Lab::find (emulator, kernel, plugin, process 1)       v
//!     '--------------- run ----------------------> guest: numapilot-lab-init runs the program
//! ```
//!
//! A running lab has no named files: the initramfs, the counters, the mailbox and the sockets are
//! descriptors that only this process and its QEMU hold, and QEMU ends with this process. So
//! nothing is left behind, however the lab ends.
#![forbid(unsafe_code)]

pub mod command_line;
mod descriptor;
mod directories;
pub mod emulator;
mod error;
pub mod image;
mod kernel;
mod run;
pub mod setup;
mod shape;
mod uncompressed;
mod unpacked;

pub use directories::cache_directory;
pub use error::LabError;
pub use kernel::Kernel;
pub use numapilot_lab_init::{User, WindowSize};
pub use run::{Lab, Outcome, Request, Streams, Tuning};
pub use shape::{GuestNode, Shape};
