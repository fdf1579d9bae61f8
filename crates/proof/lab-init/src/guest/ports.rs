//! The virtio ports that the host gave the machine, found by name.
//!
//! Source: drivers/char/virtio_console.c of the kernel: each port has a
//! directory `/sys/class/virtio-ports/vportNpM` with its `name`, and a device of that name.
//! Ports appear while the kernel talks to the device, shortly after boot. How long that may
//! take on a busy host is for the host to say: it limits the boot.

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
    /// What the program reads.
    pub stdin: File,
    /// What it prints.
    pub stdout: File,
    /// What it complains about.
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

/// The port of orders and reports.
pub struct Control(File);

impl Control {
    /// Tells the host.
    pub fn report(&self, report: &Report) -> Result<(), Trouble> {
        (&self.0)
            .write_all(format!("{report}\n").as_bytes())
            .map_err(Trouble::at("cannot write to port", CONTROL))
    }

    /// Reads orders in a thread of its own, and hands them over. Signals are acknowledged: the
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
                            // A host that is gone has ended the machine.
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

    /// The host ends the machine when it has all output, which takes as long as its reader
    /// takes; a host that is gone has ended the machine already.
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
                // The name is there a moment before the device.
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

/// Until the host has connected, reads give nothing, as if at the end.
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
