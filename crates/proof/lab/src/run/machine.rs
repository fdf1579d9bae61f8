//! A running QEMU, with this process's ends of its ports.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use numapilot_lab_init::{Order, PORTS};
use numapilot_lab_model::Report;
use numapilot_sys::spawn::{Steps, spawn};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::console::Console;
use super::counters::Counters;
use super::{Lab, Request, Streams};
use crate::command_line::{self, Parts};
use crate::descriptor::{inherit, memory, pair, path_of};
use crate::{LabError, Shape};

/// The time limit for QEMU to end on request.
const FAREWELL: Duration = Duration::from_secs(60);
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
    /// This process's ends of the ports, in the order of [`PORTS`].
    pub ports: Vec<UnixStream>,
    /// This process's end of the virtual console.
    pub terminal: Option<UnixStream>,
    counters: Option<Counters>,
}

/// The sending side of the control port.
#[derive(Debug)]
pub struct Orders(UnixStream);

impl Orders {
    /// Orders for the guest at the other end of a control port.
    pub fn to(control: &UnixStream) -> Result<Self, LabError> {
        let failed = LabError::host("use the control port");
        let orders = || {
            // A guest that does not read its orders must not block this process.
            control.set_write_timeout(Some(ORDER))?;
            control.try_clone()
        };
        orders().map(Self).map_err(failed)
    }

    /// Sends an order. A guest that is gone needs none.
    pub fn send(&self, order: Order) {
        let _ = (&self.0).write_all(format!("{order}\n").as_bytes());
    }
}

impl Machine {
    /// Starts QEMU with this disk.
    pub fn start(lab: &Lab, request: &Request, disk: &File) -> Result<Self, LabError> {
        inherit(disk)?;
        let (console, console_end) = pair()?;
        let mut ports = Vec::new();
        let mut ends = Vec::new();
        for _ in PORTS {
            let (ours, theirs) = pair()?;
            ports.push(ours);
            ends.push(theirs);
        }
        let terminal = match request.streams {
            Streams::Terminal(_) => Some(pair()?),
            Streams::Pipes => None,
        };
        let counters =
            request.model.as_ref().map(|m| Counters::new(m, &request.shape)).transpose()?;
        let mut parts = Parts {
            firmware: lab.emulator.firmware(),
            kernel: lab.boot_file.clone(),
            disk: path_of(disk),
            ports: ends.iter().map(AsRawFd::as_raw_fd).collect(),
            console: console_end.as_raw_fd(),
            terminal: terminal.as_ref().map(|(_, end)| end.as_raw_fd()),
            append: request.append.clone(),
            ..Parts::default()
        };
        if let Some(counters) = &counters {
            counters.add_to(&mut parts);
        }
        let messages = memory(c"messages")?;
        let child = start(lab, &request.shape, &parts, &messages)?;
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
            .map_err(LabError::host("watch QEMU"))?;
        Ok(Self {
            child,
            pidfd,
            messages,
            console: Console::listen(console),
            ports,
            terminal: terminal.map(|(ours, _)| ours),
            counters,
        })
    }

    /// Asks QEMU to end, which writes the plugin's report, and waits for it.
    pub fn end(mut self) -> Result<Option<Report>, LabError> {
        // QEMU may have ended by itself.
        let _ = pidfd_send_signal(&self.pidfd, Signal::TERM);
        if !self.ended_within(FAREWELL)? {
            return Err(LabError::host("end QEMU")(Errno::TIMEDOUT));
        }
        let status = self.child.wait().map_err(LabError::host("wait for QEMU"))?;
        if !status.success() {
            return Err(self.post_mortem());
        }
        self.counters.take().map(Counters::report).transpose()
    }

    /// Whether QEMU ends within a time.
    fn ended_within(&self, limit: Duration) -> Result<bool, LabError> {
        let limit = Timespec::try_from(limit).unwrap_or_default();
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        Ok(poll(&mut fds, Some(&limit)).map_err(LabError::host("wait for QEMU"))? > 0)
    }

    /// Whether QEMU ended because of a race that may not recur in another boot; `false` if it still
    /// runs.
    pub fn has_lost_a_race(&mut self) -> Result<bool, LabError> {
        if !self.ended_within(FAREWELL)? {
            return Ok(false);
        }
        self.child.wait().map(is_lost_race).map_err(LabError::host("wait for QEMU"))
    }

    /// How long QEMU's remaining threads have run or waited for a processor; `None` if the host
    /// does not count it (proc_pid_schedstat, Linux, Documentation/scheduler/sched-stats.rst).
    pub fn busy(&self) -> Option<Duration> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()?;
        let of = |task: PathBuf| {
            let text = fs::read_to_string(task.join("schedstat")).ok()?;
            let mut numbers = text.split_whitespace().map(str::parse::<u64>);
            let (run, waited) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
            Some(Duration::from_nanos(run + waited))
        };
        let all: Vec<_> = tasks.flatten().filter_map(|task| of(task.path())).collect();
        (!all.is_empty()).then(|| all.iter().sum())
    }

    /// Why QEMU ended without being asked to, or closed its ports.
    pub fn post_mortem(self) -> LabError {
        self.post_mortem_within(FAREWELL)
    }

    fn post_mortem_within(mut self, limit: Duration) -> LabError {
        match self.ended_within(limit) {
            Ok(true) => {}
            Ok(false) => {
                return LabError::EmulatorEnded {
                    status: format!(
                        "it closed its ports, did not end within {} s, and was killed",
                        limit.as_secs()
                    ),
                    said: self.last_messages() + &self.console.last_lines(),
                };
            }
            Err(error) => return error,
        }
        let status = match self.child.wait() {
            Ok(status) => status,
            Err(error) => return LabError::host("wait for QEMU")(error),
        };
        let said = self.last_messages();
        let console = self.console.last_lines();
        if status.success() && said.trim().is_empty() {
            return LabError::GuestEnded { console };
        }
        LabError::EmulatorEnded { status: describe(status), said: said + &console }
    }

    fn last_messages(&mut self) -> String {
        let mut said = Vec::new();
        // If its messages cannot be read, its status is still reported.
        let length = self.messages.seek(SeekFrom::End(0)).unwrap_or(0);
        let _ = self.messages.seek(SeekFrom::Start(length.saturating_sub(MESSAGES)));
        let _ = self.messages.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Both calls fail only if QEMU has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
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
        said: error.to_string(),
    })
}

/// Whether QEMU's exit indicates a race: QEMU failed an assertion, or its guest's kernel crashed.
/// QEMU's own refusals and signals from others are final.
fn is_lost_race(status: ExitStatus) -> bool {
    status.success() || matches!(status.signal(), Some(libc::SIGABRT | libc::SIGSEGV))
}

fn describe(status: ExitStatus) -> String {
    status.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that plays QEMU: it has closed its ports but runs on.
    #[test]
    fn an_emulator_that_does_not_end_is_killed() {
        let child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let mut messages = memory(c"messages").unwrap();
        messages.write_all(b"a message\n").unwrap();
        let (console, _) = UnixStream::pair().unwrap();
        let machine = Machine {
            child,
            pidfd: pidfd_open(pid, PidfdFlags::empty()).unwrap(),
            messages,
            console: Console::listen(console),
            ports: Vec::new(),
            terminal: None,
            counters: None,
        };
        let error = machine.post_mortem_within(Duration::ZERO).to_string();
        assert!(error.contains("did not end within 0 s") && error.contains("a message"), "{error}");
        assert!(rustix::process::test_kill_process(pid).is_err(), "it still runs");
    }

    #[test]
    fn an_order_to_a_guest_that_reads_nothing_does_not_block() {
        let (control, _guest) = UnixStream::pair().unwrap();
        let orders = Orders::to(&control).unwrap();
        assert_eq!(control.write_timeout().unwrap(), Some(ORDER), "{orders:?}");
    }

    #[test]
    fn races_are_told_from_refusals() {
        let ended = |script: &str| {
            std::process::Command::new("sh").args(["-c", script]).status().map(is_lost_race)
        };
        for (script, expected) in [
            ("exit 0", true),
            ("kill -ABRT $$", true),
            ("kill -SEGV $$", true),
            ("exit 1", false),
            ("kill -KILL $$", false),
        ] {
            assert_eq!(ended(script).unwrap(), expected, "{script}");
        }
    }
}
