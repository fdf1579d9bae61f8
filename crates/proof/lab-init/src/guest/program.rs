//! Starts the task's program, handles orders while it runs, and waits for its end.

use std::env;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use numapilot_lab_init::mailbox::Operation;
use numapilot_lab_init::{DIRECTORY, Order, Report, TASK_FILE, Task};
use numapilot_sys::mark;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, wait};

use super::ports::Ports;
use super::streams::{Outgoing, incoming, pipe};
use super::terminal::Terminal;
use super::{Trouble, settings};

/// Runs the task's program. Returns its exit status, or 128+n if signal n ended it.
pub fn run(ports: &Ports) -> Result<u8, Trouble> {
    let path = Path::new(DIRECTORY).join(TASK_FILE);
    let bytes = fs::read(&path).map_err(Trouble::at::<io::Error>("cannot read", &path))?;
    let task = Task::from_bytes(&bytes)?;
    settings::identity(&task.hostname)?;
    settings::apply(&task.settings)?;
    // Done here and not in the child, because the program's user may lack permission, as with sudo.
    env::set_current_dir(&task.directory)
        .map_err(Trouble::at::<io::Error>("cannot go to", &task.directory))?;
    let mut command = command(&task);
    let (ended, end) = pipe()?;
    let mut streams = Streams::open(&task, ports, &mut command, &ended)?;
    thread::sleep(Duration::from_nanos(task.delay_ns));
    mark::begin_whole();
    let child = command.spawn().map_err(|source| Trouble::Program {
        program: task.program.display().to_string(),
        source,
    })?;
    // The command would keep the program's ends of the pipes open.
    drop(command);
    let pid = Pid::from_child(&child);
    if let Some(terminal) = &streams.terminal {
        terminal.foreground(pid)?;
    }
    ports.report(&Report::Started)?;
    let orders = ports.orders();
    let output = std::mem::take(&mut streams.output);
    thread::spawn(move || {
        for order in orders {
            obey(order, pid, streams.terminal.as_ref());
        }
    });
    let status = reap_until(pid)?;
    mark::end_whole();
    drop(end);
    output.into_iter().for_each(Outgoing::finish);
    Ok(status)
}

fn command(task: &Task) -> Command {
    let mut command = Command::new(&task.program);
    if let Some((name, rest)) = task.arguments.split_first() {
        command.arg0(name).args(rest);
    }
    command
        .env_clear()
        .envs(task.environment.iter().map(|(name, value)| (name, value)))
        .process_group(0);
    if let Some(user) = task.user {
        command.uid(user.uid).gid(user.gid);
    }
    command
}

/// The streams between the program and the host.
struct Streams {
    output: Vec<Outgoing>,
    terminal: Option<Terminal>,
}

impl Streams {
    fn open(
        task: &Task,
        ports: &Ports,
        command: &mut Command,
        ended: &OwnedFd,
    ) -> Result<Self, Trouble> {
        if let Some(size) = task.terminal {
            let terminal = Terminal::open(size)?;
            let again = |file: &fs::File| {
                file.try_clone().map_err(Trouble::at("cannot open", "the terminal"))
            };
            command.stdin(again(&terminal.0)?);
            command.stdout(again(&terminal.0)?);
            command.stderr(again(&terminal.0)?);
            return Ok(Self { output: Vec::new(), terminal: Some(terminal) });
        }
        let start = |stream| {
            let ended = ended.try_clone().map_err(Trouble::at("cannot copy", "a descriptor"))?;
            Outgoing::start(ports.clone(), stream, ended)
        };
        let ((stdout, out), (stderr, err)) = (start(Operation::Stdout)?, start(Operation::Stderr)?);
        command.stdin(incoming(ports.clone())?).stdout(stdout).stderr(stderr);
        Ok(Self { output: vec![out, err], terminal: None })
    }
}

fn obey(order: Order, program: Pid, terminal: Option<&Terminal>) {
    match order {
        Order::Signal(number) => {
            if let Some(signal) = Signal::from_named_raw(number) {
                // The program may have ended in the meantime.
                let _ = kill_process_group(program, signal);
            }
        }
        Order::Size(size) => {
            if let Some(terminal) = terminal {
                terminal.resize(size);
            }
        }
    }
}

/// Reaps every process that ends, as process 1 must, until the program ends.
fn reap_until(program: Pid) -> Result<u8, Trouble> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => {
                let code = status.exit_status().or(status.terminating_signal().map(|s| 128 + s));
                return Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Trouble::at("cannot wait for", "the program")(error)),
        }
    }
}
