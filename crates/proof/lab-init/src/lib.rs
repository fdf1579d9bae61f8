//! What the host of an emulated machine and its process 1 agree on.
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
//! Every stream has a port of its own, so that one which nobody reads does not hold up the
//! others, and is cut into frames, so that its end is told apart from silence.
#![forbid(unsafe_code)]

pub mod frame;
mod message;
mod task;

pub use message::{Failure, Order, Report};
pub use task::{Setting, Task, TaskError, User, WindowSize};

/// Directory of the image that belongs to the lab; process 1 and the task are in it.
pub const DIRECTORY: &str = "/.numapilot";
/// The [`Task`], inside [`DIRECTORY`].
pub const TASK_FILE: &str = "task";
/// Process 1, inside [`DIRECTORY`]; also the name of its file on the host.
pub const PROGRAM: &str = "numapilot-lab-init";
/// Names of the virtio ports, in the order in which QEMU gets them.
pub const PORTS: [&str; 4] = [CONTROL, STDIN, STDOUT, STDERR];
/// Orders and reports, one per line.
pub const CONTROL: &str = "control";
/// The program's input.
pub const STDIN: &str = "stdin";
/// The program's output.
pub const STDOUT: &str = "stdout";
/// The program's messages.
pub const STDERR: &str = "stderr";
