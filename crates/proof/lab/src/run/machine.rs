//! A running QEMU, with this process's ends of its sockets.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use numapilot_lab_init::Order;
use numapilot_lab_model::Report;
use numapilot_sys::spawn::{Steps, spawn};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::console::Console;
use super::output::{self, Output};
use super::plugin::Plugin;
use super::{Lab, Request, Streams};
use crate::command_line::{self, Parts};
use crate::descriptor::{inherit, memory, pair, path_of};
use crate::{LabError, Shape};

/// The time limit for copying the last output to a terminal.
const LAST_OF_TERMINAL: Duration = Duration::from_secs(2);
/// The time limit for sending an order.
const ORDER: Duration = Duration::from_secs(1);
/// Number of bytes of QEMU's last messages that are shown.
const MESSAGES: u64 = 16 << 10;

/// A running machine. Dropping it ends the machine.
pub struct Machine {
    child: Child,
    /// Becomes readable when QEMU ends.
    pub pidfd: OwnedFd,
    /// QEMU's messages.
    messages: File,
    /// The console of the guest's kernel.
    pub console: Console,
    /// Our end of the control socket.
    pub control: Option<UnixStream>,
    /// Our end of the doorbell.
    pub doorbell: Option<UnixStream>,
    /// The descriptor from which QEMU reads the program's input, to wait for input.
    pub input: Option<OwnedFd>,
    /// Our end of the virtual console.
    pub terminal: Option<UnixStream>,
    /// The program's outputs that are copied to a terminal.
    pub outputs: Vec<Output>,
    plugin: Option<Plugin>,
}

/// The sending side of the control socket, with the doorbell.
#[derive(Debug)]
pub struct Orders {
    control: UnixStream,
    doorbell: UnixStream,
}

impl Orders {
    /// Orders for the guest at the other end of a control socket, and its doorbell.
    pub fn to(control: &UnixStream, doorbell: UnixStream) -> Result<Self, LabError> {
        let failed = LabError::host("use the control port");
        let orders = || {
            // A guest that does not read its orders must not block this process.
            control.set_write_timeout(Some(ORDER))?;
            doorbell.set_nonblocking(true)?;
            Ok::<_, io::Error>(Self { control: control.try_clone()?, doorbell })
        };
        orders().map_err(failed)
    }

    /// Sends an order. An error is ignored: the guest has ended, or does not read its orders.
    pub fn send(&self, order: Order) {
        let _ = (&self.control).write_all(format!("{order}\n").as_bytes());
        self.ring();
    }

    /// Rings the doorbell, so that the guest looks for orders and input. If the socket is full, the
    /// guest has unread rings and will look anyway.
    pub fn ring(&self) {
        let _ = (&self.doorbell).write(b"!");
    }
}

impl Machine {
    /// Starts QEMU. `files` is the initramfs.
    pub fn start(lab: &Lab, request: &Request, files: &File) -> Result<Self, LabError> {
        inherit(files)?;
        let (console, console_end) = pair()?;
        let (control, control_end) = pair()?;
        let (doorbell, doorbell_end) = pair()?;
        let mut outputs = Vec::new();
        let mut terminal = None;
        let mut terminal_end = None;
        let streams = match request.streams {
            Streams::Terminal(_) => {
                let (ours, theirs) = pair()?;
                (terminal, terminal_end) = (Some(ours), Some(theirs));
                None
            }
            Streams::Pipes => {
                let (out, copier) = output::output(&io::stdout())?;
                outputs.extend(copier);
                let (err, copier) = output::output(&io::stderr())?;
                outputs.extend(copier);
                Some([output::input()?, out, err])
            }
        };
        let plugin = Plugin::new(request)?;
        let mut parts = Parts {
            firmware: lab.emulator.firmware(),
            kernel: lab.boot_file.clone(),
            files: path_of(files),
            console: console_end.as_raw_fd(),
            doorbell: doorbell_end.as_raw_fd(),
            terminal: terminal_end.as_ref().map(AsRawFd::as_raw_fd),
            append: request.append.clone(),
            tsc_khz: request.model.tsc_khz(),
            seed: request.seed,
            ..Parts::default()
        };
        // A shell uses its terminal instead of the streams, so any descriptor serves for them.
        let control_number = control_end.as_raw_fd();
        let [stdin, stdout, stderr] = streams
            .as_ref()
            .map_or([control_number; 3], |streams| streams.each_ref().map(AsRawFd::as_raw_fd));
        plugin.add_to(&mut parts, [stdin, stdout, stderr, control_number]);
        let messages = memory(c"messages")?;
        let child = start(lab, &request.shape, &parts, &messages)?;
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
            .map_err(LabError::host("watch QEMU"))?;
        Ok(Self {
            child,
            pidfd,
            messages,
            console: Console::listen(console),
            control: Some(control),
            doorbell: Some(doorbell),
            input: streams.map(|[input, ..]| input),
            terminal,
            outputs,
            plugin: Some(plugin),
        })
    }

    /// Ends QEMU, after the program has ended and the plugin has written its report. Waits until
    /// the program's output is copied. `None` if accesses were not modelled.
    pub fn end(mut self) -> Result<Option<Report>, LabError> {
        self.kill();
        self.outputs.iter().for_each(|output| {
            output.wait(LAST_OF_TERMINAL);
        });
        self.plugin.take().map_or(Ok(None), Plugin::report)
    }

    fn kill(&mut self) {
        // Both fail only if QEMU has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The reason for which QEMU ended without being asked to. Waits for its end, which is near
    /// when its sockets are closed.
    pub fn post_mortem(mut self) -> LabError {
        let status = match self.child.wait() {
            Ok(status) => status,
            Err(error) => return LabError::host("wait for QEMU")(error),
        };
        let message = self.last_messages();
        let console = self.console.last_lines();
        if status.success() && message.trim().is_empty() {
            return LabError::GuestEnded { console };
        }
        LabError::EmulatorEnded { status: describe(status), message: message + &console }
    }

    fn last_messages(&mut self) -> String {
        let mut message = Vec::new();
        // If its messages cannot be read, its status is still reported.
        let length = self.messages.seek(SeekFrom::End(0)).unwrap_or(0);
        let _ = self.messages.seek(SeekFrom::Start(length.saturating_sub(MESSAGES)));
        let _ = self.messages.read_to_end(&mut message);
        String::from_utf8_lossy(&message).into_owned()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
    }
}

fn start(lab: &Lab, shape: &Shape, parts: &Parts, messages: &File) -> Result<Child, LabError> {
    let arguments: Vec<OsString> = command_line::qemu(shape, parts);
    let mut command = lab.emulator.command();
    let copy = messages.try_clone().map_err(LabError::host("start QEMU"))?;
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(copy);
    // A process group of its own: Ctrl-C on the terminal is for the program in the guest.
    let end_with_parent = Some(libc::SIGKILL);
    Steps { new_group: true, end_with_parent, ..Steps::default() }.install(&mut command);
    spawn(&mut command).map_err(|error| LabError::EmulatorEnded {
        status: "it did not start".to_owned(),
        message: error.to_string(),
    })
}

fn describe(status: ExitStatus) -> String {
    status.to_string()
}
