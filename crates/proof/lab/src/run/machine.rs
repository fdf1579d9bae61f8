//! A QEMU that runs, with our ends of its ports.

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

/// How long QEMU may take to end when it is asked to.
const FAREWELL: Duration = Duration::from_secs(60);
/// Bytes of QEMU's last messages that are shown.
const MESSAGES: u64 = 16 << 10;

/// A running machine; it ends with this value.
pub struct Machine {
    child: Child,
    /// Becomes readable when QEMU ends.
    pub pidfd: OwnedFd,
    /// What QEMU said.
    messages: File,
    /// What the guest's kernel said.
    pub console: Console,
    /// Our ends, in the order of [`PORTS`].
    pub ports: Vec<UnixStream>,
    /// Our end of the virtual console.
    pub terminal: Option<UnixStream>,
    counters: Option<Counters>,
}

/// Where orders to the guest go.
#[derive(Debug)]
pub struct Orders(UnixStream);

impl Orders {
    /// Orders for the guest at the other end of its control port.
    pub fn to(control: &UnixStream) -> Result<Self, LabError> {
        control.try_clone().map(Self).map_err(LabError::host("use the control port"))
    }

    /// Sends one. A guest that is gone needs none.
    pub fn send(&self, order: Order) {
        let _ = (&self.0).write_all(format!("{order}\n").as_bytes());
    }
}

impl Machine {
    /// Starts it with this disk.
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

    /// Asks QEMU to end, so that what it has counted is written, and waits for it.
    pub fn end(mut self) -> Result<Option<Report>, LabError> {
        // It may have ended by itself.
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

    /// Whether it ends within a time.
    fn ended_within(&self, limit: Duration) -> Result<bool, LabError> {
        let limit = Timespec::try_from(limit).unwrap_or_default();
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        Ok(poll(&mut fds, Some(&limit)).map_err(LabError::host("wait for QEMU"))? > 0)
    }

    /// Whether it ended by a race that another boot may not lose; one that has not ended yet
    /// has not.
    pub fn has_lost_a_race(&mut self) -> Result<bool, LabError> {
        if !self.ended_within(FAREWELL)? {
            return Ok(false);
        }
        self.child.wait().map(is_lost_race).map_err(LabError::host("wait for QEMU"))
    }

    /// How long QEMU's threads, those that there still are, have run or waited for a processor;
    /// nothing where the host does not count it (proc_pid_schedstat, Linux,
    /// Documentation/scheduler/sched-stats.rst).
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

    /// Why it ended, when nobody asked it to.
    pub fn post_mortem(mut self) -> LabError {
        let status = match self.child.wait() {
            Ok(status) => status,
            Err(error) => return LabError::host("wait for QEMU")(error),
        };
        let mut said = Vec::new();
        // Without its messages its status says at least something.
        let length = self.messages.seek(SeekFrom::End(0)).unwrap_or(0);
        let _ = self.messages.seek(SeekFrom::Start(length.saturating_sub(MESSAGES)));
        let _ = self.messages.read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said).into_owned();
        let console = self.console.last_lines();
        if status.success() && said.trim().is_empty() {
            return LabError::GuestEnded { console };
        }
        LabError::EmulatorEnded { status: describe(status), said: said + &console }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Both fail only for one that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(lab: &Lab, shape: &Shape, parts: &Parts, messages: &File) -> Result<Child, LabError> {
    let arguments: Vec<OsString> = command_line::qemu(shape, parts);
    let mut command = lab.emulator.command();
    let copy = messages.try_clone().map_err(LabError::host("start QEMU"))?;
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(copy);
    // A group of its own: the terminal's Ctrl-C is for the program in the guest.
    let end_with_parent = Some(libc::SIGKILL);
    Steps { new_group: true, end_with_parent, ..Steps::default() }.install(&mut command);
    spawn(&mut command).map_err(|error| LabError::EmulatorEnded {
        status: "it did not start".to_owned(),
        said: error.to_string(),
    })
}

/// Whether QEMU's end is that of a race: it found itself in error, as by a failed assertion, or
/// its guest's kernel gave up. QEMU's own refusals and what others did to it are for good.
fn is_lost_race(status: ExitStatus) -> bool {
    status.success() || matches!(status.signal(), Some(libc::SIGABRT | libc::SIGSEGV))
}

fn describe(status: ExitStatus) -> String {
    status.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

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
