//! The protocol between the host of an emulated machine and its process 1.
//!
//! ```text
//!  host (numapilot lab run)                           guest (this crate's binary)
//!    Task ------------- a file of the image ----------------> what to run
//!    Order ----\                                       /----> signals, window size
//!    Report <---+-- mailbox, lines -------------------+------ started, failed, exited
//!    bytes <-------- mailbox --------------------------------- the program's output
//!    bytes --------- mailbox --------------------------------> the program's input
//!    doorbell ------ second serial port ---------------------> an order or input has arrived
//!    bytes <------- virtual console hvc0 -------------------> a shell's terminal
//! ```
//!
//! Calls through the mailbox take no time in the guest, however long the host needs. Only the
//! doorbell and a shell's terminal interrupt the guest at moments that depend on the host.
#![forbid(unsafe_code)]

pub mod mailbox;

mod message;
mod task;

pub use message::{Failure, Order, Report};
pub use task::{Setting, Task, TaskError, User, WindowSize};

/// The lab's directory in the image, with process 1 and the task.
pub const DIRECTORY: &str = "/.numapilot";
/// The [`Task`], inside [`DIRECTORY`].
pub const TASK_FILE: &str = "task";
/// File name of process 1, inside [`DIRECTORY`] and on the host.
pub const PROGRAM: &str = "numapilot-lab-init";
/// The guest's serial port that is the doorbell: each byte says that orders or input have arrived.
pub const DOORBELL: &str = "/dev/ttyS1";
/// The plugin's message in a QEMU in which it can run.
pub const SUITABLE: &str = "numapilot: this QEMU suits the lab";
/// The start of the plugin's error messages.
pub const COMPLAINT: &str = "numapilot: ";
