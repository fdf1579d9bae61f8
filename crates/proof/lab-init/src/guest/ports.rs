//! Finds the virtio ports of the machine by name.
//!
//! Source: drivers/char/virtio_console.c of the kernel: each port has a directory
//! `/sys/class/virtio-ports/vportNpM` with its `name`, and a device of the same name. Ports appear
//! shortly after boot, while the kernel communicates with the device. The host decides how long
//! that may take: it limits the boot.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use numapilot_lab_init::{CONTROL, Order, Report, STDERR, STDIN, STDOUT};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Trouble;

const PAUSE: Duration = Duration::from_millis(5);

/// The ports, connected to the host.
pub struct Ports {
    /// Orders and reports.
    pub control: Control,
    /// The program's standard input.
    pub stdin: File,
    /// The program's standard output.
    pub stdout: File,
    /// The program's standard error.
    pub stderr: File,
}

impl Ports {
    /// Waits for the ports and opens them.
    pub fn open() -> Result<Self, Trouble> {
        Ok(Self {
            control: Control(port(CONTROL)?),
            stdin: port(STDIN)?,
            stdout: port(STDOUT)?,
            stderr: port(STDERR)?,
        })
    }
}

/// The port for orders and reports.
pub struct Control(File);

impl Control {
    /// Sends a report to the host.
    pub fn report(&self, report: &Report) -> Result<(), Trouble> {
        (&self.0)
            .write_all(format!("{report}\n").as_bytes())
            .map_err(Trouble::at("cannot write to port", CONTROL))
    }

    /// Starts a thread that reads orders and passes them on. Signals are acknowledged, because the
    /// host ends a guest that hangs.
    pub fn orders(&self) -> Result<Receiver<Order>, Trouble> {
        let again = || self.0.try_clone().map_err(Trouble::at("cannot open port", CONTROL));
        let (port, answers) = (again()?, Self(again()?));
        let (send, receive) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(port).lines().map_while(Result::ok) {
                match line.parse() {
                    Ok(order) if send.send(order).is_ok() => {
                        if let Order::Signal(_) = order {
                            // If the host is gone, the machine ends anyway.
                            let _ = answers.report(&Report::Heard);
                        }
                    }
                    Ok(_) => break,
                    Err(why) => eprintln!("{CONTROL}: {why}"),
                }
            }
        });
        Ok(receive)
    }

    /// Waits until the host ends the machine, which it does once its reader has taken all output.
    /// If the host is gone, the machine has ended already.
    pub fn wait_for_end(&self) -> ! {
        loop {
            thread::park();
        }
    }
}

fn port(name: &'static str) -> Result<File, Trouble> {
    loop {
        if let Some(device) = device_named(name) {
            let device = format!("/dev/{device}");
            match File::options().read(true).write(true).open(&device) {
                Ok(file) => return connected(file, name),
                // The name appears slightly before the device.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(Trouble::at("cannot open", device)(e)),
            }
        }
        thread::sleep(PAUSE);
    }
}

fn device_named(name: &str) -> Option<String> {
    let ports = fs::read_dir("/sys/class/virtio-ports").ok()?;
    ports.filter_map(Result::ok).find_map(|port| {
        let text = fs::read_to_string(port.path().join("name")).ok()?;
        (text.trim_end() == name).then(|| port.file_name().to_string_lossy().into_owned())
    })
}

/// Until the host has connected, reads return nothing, as at the end of a file.
fn connected(file: File, name: &'static str) -> Result<File, Trouble> {
    loop {
        let mut fds = [PollFd::new(&file, PollFlags::OUT)];
        poll(&mut fds, Some(&Timespec::default())).map_err(Trouble::at("cannot poll", name))?;
        if !fds[0].revents().contains(PollFlags::HUP) {
            return Ok(file);
        }
        thread::sleep(PAUSE);
    }
}
