//! The session with a guest: boot, program and end, with signals and time limits.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use numapilot_lab_init::{Failure, Order, Report};
use numapilot_sys::signals::SignalFd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::machine::{Machine, Orders};
use super::reports::Reports;
use super::terminal::{self, Terminal};
use super::{Lab, Outcome, Request, Streams, implicit_includes, task};
use crate::{LabError, image};

/// The signals that are forwarded to the program.
const SIGNALS: [i32; 6] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2];
/// Time limit, on the host's clock, for a guest to acknowledge a signal that asks its program to
/// end.
const HEARING: Duration = Duration::from_secs(60);

/// Boots the machine, runs the program, and ends the machine.
pub fn run(lab: &Lab, request: &Request) -> Result<Outcome, LabError> {
    let begun = Instant::now();
    let mut signals = SIGNALS.to_vec();
    signals.extend(matches!(request.streams, Streams::Terminal(_)).then_some(libc::SIGWINCH));
    // Signals are blocked before the first thread is started.
    let signals = SignalFd::open(&signals).map_err(LabError::host("receive signals"))?;
    let task = task::from_request(request)?;
    let mut include = image::to_include(&request.include)?;
    include.extend(implicit_includes::for_task(&task));
    let contents =
        image::Contents { task: &task, init: &lab.init, own: &lab.own, include: &include };
    let (files, bytes) = image::build(&contents)?;
    let request = with_room(request, bytes.saturating_add(request.free_bytes));
    let machine = Machine::start(lab, &request, &files)?;
    drop(files);
    let mut run = Run::new(&request, machine, &signals, begun)?;
    let end = run.until_end()?;
    run.conclude(end)
}

/// Adds memory for `bytes` of files to the machine's first node, so that programs can use as much
/// memory as the description says.
fn with_room(request: &Request, bytes: u64) -> Request {
    const UNIT: u64 = 32 << 20;
    /// The size of the physical address space.
    const MOST: u64 = 1 << 52;
    let mut request = request.clone();
    if let Some(node) = request.shape.nodes.first_mut() {
        node.memory_bytes += bytes.min(MOST).next_multiple_of(UNIT);
    }
    request.model.ranges = request.shape.layout().ranges;
    request
}

/// The reason for the end of a run.
enum End {
    Exited(u8),
    Failed(Failure),
    /// A signal to this process ended the run.
    Signal(i32),
    /// A time limit has passed: that of booting, or that of the program.
    Timeout,
    /// The guest did not acknowledge a signal that asks its program to end.
    Hung,
    /// QEMU has ended.
    Died,
}

struct Run<'a> {
    request: &'a Request,
    machine: Machine,
    signals: &'a SignalFd,
    reports: Reports,
    orders: Orders,
    /// This process's terminal, while the guest's program uses it.
    terminal: Option<Terminal>,
    begun: Instant,
    booted_by: Instant,
    started: Option<Instant>,
    /// The first forwarded signal that asks the program to end.
    asked: Option<i32>,
    /// Whether the guest waits for input, and so for the doorbell.
    is_starved: bool,
    /// The deadline of a pending acknowledgement.
    heard_by: Option<Instant>,
}

impl<'a> Run<'a> {
    fn new(
        request: &'a Request,
        mut machine: Machine,
        signals: &'a SignalFd,
        begun: Instant,
    ) -> Result<Self, LabError> {
        let ports = machine.control.take().zip(machine.doorbell.take());
        let (control, doorbell) =
            ports.ok_or_else(|| LabError::host("use the control socket")(Errno::BADF))?;
        Ok(Self {
            request,
            machine,
            signals,
            orders: Orders::to(&control, doorbell)?,
            reports: Reports::of(control),
            terminal: None,
            begun,
            booted_by: begun + request.boot_timeout,
            started: None,
            asked: None,
            is_starved: false,
            heard_by: None,
        })
    }

    fn until_end(&mut self) -> Result<End, LabError> {
        loop {
            let now = Instant::now();
            let left = self.deadline().map(|at| at.saturating_duration_since(now));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(if self.heard_by.is_some_and(|at| now >= at) {
                    End::Hung
                } else {
                    End::Timeout
                });
            }
            let limit = left.and_then(|left| Timespec::try_from(left).ok());
            let sources = [
                self.reports.as_fd(),
                self.signals.as_fd(),
                self.machine.pidfd.as_fd(),
                // Without a terminal, nothing can request the exit; QEMU's descriptor takes its
                // place in the array. The same applies to input for which the guest does not wait.
                self.terminal.as_ref().map_or(self.machine.pidfd.as_fd(), Terminal::out),
                match &self.machine.input {
                    Some(input) if self.is_starved => input.as_fd(),
                    _ => self.machine.pidfd.as_fd(),
                },
            ];
            let mut fds = sources.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            match poll(&mut fds, limit.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(LabError::host("wait for the guest")(error)),
            }
            let [report, signal, ended, out, input] = fds.map(|fd| !fd.revents().is_empty());
            if report && let Some(end) = self.listen()? {
                return Ok(end);
            }
            if signal && let Some(end) = self.pass_on()? {
                return Ok(end);
            }
            if ended {
                return Ok(End::Died);
            }
            if input {
                self.is_starved = false;
                self.orders.ring();
            }
            if out {
                return Ok(End::Signal(libc::SIGKILL));
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self.started {
            None => Some(self.booted_by),
            Some(at) => {
                let timeout = self.request.timeout.map(|limit| at + limit);
                timeout.into_iter().chain(self.heard_by).min()
            }
        }
    }

    /// Reads the available reports.
    fn listen(&mut self) -> Result<Option<End>, LabError> {
        let open = self.reports.read().map_err(LabError::host("hear from the guest"))?;
        while let Some(report) = self.reports.next() {
            match report {
                Ok(Report::Started) if self.started.is_some() => {}
                Ok(Report::Started) => self.start()?,
                Ok(Report::Starved) => self.is_starved = true,
                Ok(Report::Heard) => self.heard_by = None,
                Ok(Report::Exited(status)) => return Ok(Some(End::Exited(status))),
                Ok(Report::Failed(failure)) => return Ok(Some(End::Failed(failure))),
                Err(what) => return Ok(Some(End::Failed(Failure { errno: 0, what }))),
            }
        }
        // A closed control socket means that QEMU has ended; its exit status gives the reason.
        Ok((!open).then_some(End::Died))
    }

    /// The program has started. A terminal's input goes to it from now on.
    fn start(&mut self) -> Result<(), LabError> {
        self.started = Some(Instant::now());
        if let Some(port) = self.machine.terminal.take() {
            let (terminal, output) = Terminal::connect(port)?;
            self.terminal = Some(terminal);
            self.machine.outputs.push(output);
        }
        Ok(())
    }

    /// Forwards signals to the program. A signal before the program runs, or a second one, ends the
    /// machine.
    fn pass_on(&mut self) -> Result<Option<End>, LabError> {
        while let Some(arrived) = self.signals.next().map_err(LabError::host("receive signals"))? {
            if arrived.ignored {
                // The program in the guest has not inherited that.
                continue;
            }
            let signal = arrived.signal;
            if signal == libc::SIGWINCH {
                if let Some(size) = terminal::size() {
                    self.orders.send(Order::Size(size));
                }
                continue;
            }
            let asks_to_end = asks_to_end(signal);
            if asks_to_end && (self.started.is_none() || self.asked.is_some()) {
                return Ok(Some(End::Signal(signal)));
            }
            self.orders.send(Order::Signal(signal));
            if asks_to_end {
                self.heard_by = Some(Instant::now() + HEARING);
            }
            self.asked = self.asked.or(asks_to_end.then_some(signal));
        }
        Ok(None)
    }

    fn conclude(self, end: End) -> Result<Outcome, LabError> {
        let now = Instant::now();
        let started = self.started.unwrap_or(now);
        let mut outcome = Outcome {
            status: 0,
            boot: started.saturating_duration_since(self.begun),
            wall: now.saturating_duration_since(started),
            report: None,
        };
        let console = || self.machine.console.last_lines();
        match end {
            End::Exited(status) => {
                outcome.status = status;
                outcome.report = self.machine.end()?;
            }
            End::Signal(signal) => {
                outcome.status = u8::try_from(128 + signal).unwrap_or(u8::MAX);
                drop(self.machine);
            }
            End::Failed(failure) => return Err(self.failed(failure)),
            End::Timeout | End::Hung => {
                return Err(match (self.started, self.request.timeout) {
                    (Some(_), _) if matches!(end, End::Hung) => {
                        LabError::GuestHangs { console: console() }
                    }
                    (Some(_), Some(limit)) => {
                        LabError::Timeout { seconds: limit.as_secs_f64(), console: console() }
                    }
                    _ => {
                        let limit = self.request.boot_timeout;
                        LabError::BootTimeout { limit, console: console() }
                    }
                });
            }
            End::Died => return Err(self.machine.post_mortem()),
        }
        Ok(outcome)
    }

    fn failed(&self, failure: Failure) -> LabError {
        let program = self.request.command.first().map(|p| p.to_string_lossy().into_owned());
        let program = program.unwrap_or_default();
        match failure.errno {
            libc::ENOENT => LabError::NoProgram { program, searched: failure.what },
            0 => LabError::GuestFailed {
                what: failure.what,
                console: self.machine.console.last_lines(),
            },
            _ => LabError::NotExecutable { program, why: failure.what },
        }
    }
}

/// Whether a signal asks a program to end.
fn asks_to_end(signal: i32) -> bool {
    !matches!(signal, libc::SIGUSR1 | libc::SIGUSR2 | libc::SIGWINCH)
}
