//! The protocol between the host of an emulated machine and its process 1.
//!
//! ```text
//!  host (numapilot lab run)                           guest (this crate's binary)
//!    Task ------------- a file of the image ----------------> what to run
//!    Order ----\                                       /----> signals, window size
//!    Report <---+-- virtio port "control", lines -----+------ started, failed, exited
//!    frames <------ ports "stdout" and "stderr" ------------- the program's output
//!    frames ------- port "stdin" ---------------------------> the program's input
//!    bytes <------- virtual console hvc0 -------------------> a shell's terminal
//! ```
//!
//! Every stream has a port of its own, so one without a reader does not block the others. Streams
//! are split into frames, so their end differs from silence.
#![forbid(unsafe_code)]

pub mod frame;
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
/// Names of the virtio ports, in QEMU's order.
pub const PORTS: [&str; 4] = [CONTROL, STDIN, STDOUT, STDERR];
/// Orders and reports, one per line.
pub const CONTROL: &str = "control";
/// The program's standard input.
pub const STDIN: &str = "stdin";
/// The program's standard output.
pub const STDOUT: &str = "stdout";
/// The program's standard error.
pub const STDERR: &str = "stderr";
