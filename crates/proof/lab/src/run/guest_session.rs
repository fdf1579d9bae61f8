//! The session with a guest: boot, program and end, with signals and time limits.

use std::io::{stderr, stdout};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use numapilot_lab_init::{Failure, Order, Report};
use numapilot_sys::signals::SignalFd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::boot_watchdog::{self, BootWatchdog};
use super::machine::{Machine, Orders};
use super::output::{self, Drained, Output};
use super::reports::Reports;
use super::terminal::{self, Terminal};
use super::{Lab, Outcome, Request, Streams, implicit_includes, task};
use crate::{LabError, image};

/// The signals that are forwarded to the program.
const SIGNALS: [i32; 6] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2];
/// The time in which a guest must acknowledge a signal that asks its program to end. A guest that
/// is idle meanwhile hangs, and is ended sooner ([`BootWatchdog`]).
const HEARING: Duration = Duration::from_secs(60);
/// The time for which a guest may be silent before it has sent all output of a program that has ended.
const SILENCE: Duration = Duration::from_secs(60);
/// The time limit for the last output of a terminal, whose stream has no end.
const LAST_OF_TERMINAL: Duration = Duration::from_millis(200);

/// The maximum number of boots. A guest is booted again if it hangs during the boot, which one in a
/// hundred does on a busy host (the emulator loses an interrupt), if its kernel crashes then, or if
/// its emulator fails an assertion (`iotlb_to_section`: a CPU uses the device map while another one
/// changes it). Each boot gets its part of the time limit.
const BOOTS: u32 = 3;

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
    let contents = image::Contents {
        task: &task,
        init: &lab.init,
        own: &lab.own,
        include: &include,
        free_bytes: request.free_bytes,
    };
    let mut boots = 0;
    loop {
        boots += 1;
        let disk = image::build(&contents)?;
        let machine = Machine::start(lab, request, &disk)?;
        drop(disk);
        let booted_by = begun + request.boot_timeout * boots / BOOTS;
        let mut run = Run::new(request, machine, &signals, [begun, booted_by])?;
        // The last boot has all of the remaining time.
        run.boot_watchdog = (boots < BOOTS).then(|| BootWatchdog::new(Instant::now()));
        let end = run.until_end()?;
        let again = run.started.is_none()
            && boots < BOOTS
            && match end {
                End::Hung | End::Timeout => true,
                End::Died => run.machine.has_lost_a_race()?,
                End::Exited(_) | End::Failed(_) | End::Signal(_) => false,
            };
        if !again {
            return Ok(Outcome { boots, ..run.conclude(end)? });
        }
    }
}

/// The reason for the end of a run.
enum End {
    Exited(u8),
    Failed(Failure),
    /// A signal to this process.
    Signal(i32),
    Timeout,
    /// The guest hung during its boot, or after its program was asked to end.
    Hung,
    Died,
}

struct Run<'a> {
    request: &'a Request,
    machine: Machine,
    signals: &'a SignalFd,
    reports: Reports,
    orders: Orders,
    /// The ports that are not read here, starting with the program's input. They stay open until
    /// the machine ends, because the guest takes a closed port for a host that has not connected
    /// yet.
    ports: Vec<UnixStream>,
    outputs: Vec<Output>,
    /// Set from the start of the program to its end.
    terminal: Option<Terminal>,
    begun: Instant,
    booted_by: Instant,
    /// Checked until the program starts, while the guest may still be booted again, and while a
    /// signal is not acknowledged.
    boot_watchdog: Option<BootWatchdog>,
    started: Option<Instant>,
    /// The signal that was forwarded.
    asked: Option<i32>,
    /// When the pending acknowledgement is due.
    heard_by: Option<Instant>,
}

impl<'a> Run<'a> {
    fn new(
        request: &'a Request,
        mut machine: Machine,
        signals: &'a SignalFd,
        [begun, booted_by]: [Instant; 2],
    ) -> Result<Self, LabError> {
        let mut ports = std::mem::take(&mut machine.ports).into_iter();
        let (Some(control), Some(stdin), Some(out), Some(err)) =
            (ports.next(), ports.next(), ports.next(), ports.next())
        else {
            return Err(LabError::host("use the ports")(rustix::io::Errno::BADF));
        };
        let orders = || Orders::to(&control);
        let mut outputs = Vec::new();
        let mut ports = vec![stdin];
        match request.streams {
            Streams::Terminal(_) => ports.extend([out, err]),
            Streams::Pipes => {
                outputs.push(Output::copy(out, &stdout(), false, orders()?)?);
                outputs.push(Output::copy(err, &stderr(), true, orders()?)?);
            }
        }
        let orders = orders()?;
        let reports = Reports::of(control);
        Ok(Self {
            request,
            machine,
            signals,
            reports,
            orders,
            ports,
            outputs,
            terminal: None,
            begun,
            booted_by,
            boot_watchdog: None,
            started: None,
            asked: None,
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
            if self.hangs(now) {
                return Ok(End::Hung);
            }
            let glance = self.boot_watchdog.map(|_| boot_watchdog::GLANCE);
            let limit = left.into_iter().chain(glance).min();
            let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
            let sources = [
                self.reports.as_fd(),
                self.signals.as_fd(),
                self.machine.pidfd.as_fd(),
                // Without a terminal nothing can request the exit; another descriptor takes its
                // place in the array.
                self.terminal.as_ref().map_or(self.machine.pidfd.as_fd(), Terminal::out),
            ];
            let mut fds = sources.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            match poll(&mut fds, limit.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(LabError::host("wait for the guest")(error)),
            }
            let [report, signal, ended, out] = fds.map(|fd| !fd.revents().is_empty());
            if report && let Some(end) = self.listen()? {
                return Ok(end);
            }
            if signal && let Some(end) = self.pass_on()? {
                return Ok(end);
            }
            if ended {
                return Ok(End::Died);
            }
            if out {
                return Ok(End::Signal(libc::SIGKILL));
            }
        }
    }

    /// Whether the guest has hung before the program started, or before it acknowledged a signal.
    fn hangs(&mut self, now: Instant) -> bool {
        let busy = self.boot_watchdog.and_then(|_| self.machine.busy());
        self.boot_watchdog
            .as_mut()
            .zip(busy)
            .is_some_and(|(watchdog, busy)| watchdog.is_lost(now, busy))
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
                Ok(Report::Heard) => (self.heard_by, self.boot_watchdog) = (None, None),
                Ok(Report::Exited(status)) => return Ok(Some(End::Exited(status))),
                Ok(Report::Failed(failure)) => return Ok(Some(End::Failed(failure))),
                Err(what) => return Ok(Some(End::Failed(Failure { errno: 0, what }))),
            }
        }
        // After the end of the port there are no more reports; QEMU's exit gives the reason.
        Ok((!open).then_some(End::Died))
    }

    /// The program runs, so input goes to it from now on.
    fn start(&mut self) -> Result<(), LabError> {
        self.started = Some(Instant::now());
        self.boot_watchdog = None;
        if let Some(port) = self.machine.terminal.take() {
            let (terminal, output) = Terminal::connect(port)?;
            self.terminal = Some(terminal);
            self.outputs.push(output);
        } else {
            output::feed(&self.ports[0])?;
        }
        Ok(())
    }

    /// Forwards signals to the program. A signal before the program runs, or a second one, ends the
    /// machine.
    fn pass_on(&mut self) -> Result<Option<End>, LabError> {
        while let Some(arrived) = self.signals.next().map_err(LabError::host("receive signals"))? {
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
                let now = Instant::now();
                (self.heard_by, self.boot_watchdog) =
                    (Some(now + HEARING), Some(BootWatchdog::new(now)));
            }
            self.asked = self.asked.or(asks_to_end.then_some(signal));
        }
        Ok(None)
    }

    /// Waits until the reader has taken all output of the program.
    fn drain(&mut self) -> Result<Drained, LabError> {
        if self.terminal.is_some() {
            self.outputs.iter().for_each(|output| {
                output.wait(LAST_OF_TERMINAL);
            });
            return Ok(Drained::Complete);
        }
        output::drain(&self.outputs, SILENCE, || {
            let arrived = self.signals.next().map_err(LabError::host("receive signals"))?;
            Ok(arrived.map(|arrived| arrived.signal).filter(|signal| asks_to_end(*signal)))
        })
    }

    fn conclude(mut self, mut end: End) -> Result<Outcome, LabError> {
        let now = Instant::now();
        let started = self.started.unwrap_or(now);
        let mut outcome = Outcome {
            status: 0,
            boots: 1,
            boot: started.saturating_duration_since(self.begun),
            wall: now.saturating_duration_since(started),
            report: None,
        };
        if let End::Exited(status) = end {
            match self.drain()? {
                Drained::Complete => {}
                Drained::Signal(signal) => end = End::Signal(signal),
                Drained::Silent => {
                    let console = self.machine.console.last_lines();
                    let seconds = SILENCE.as_secs();
                    return Err(LabError::OutputMissing { status, seconds, console });
                }
            }
        }
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
                        let seconds = self.request.boot_timeout.as_secs();
                        LabError::BootTimeout { seconds, console: console() }
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
