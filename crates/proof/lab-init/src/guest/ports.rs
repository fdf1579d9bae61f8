//! The connection of process 1 to the host: calls through the mailbox that they share, and the
//! doorbell by which the host announces orders and input.
//!
//! The mailbox is BAR 2 of a PCI device (`ivshmem-plain`, 1af4:1110). The doorbell is a serial
//! port. Source: Documentation/PCI/sysfs-pci.rst of the kernel.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use numapilot_lab_init::mailbox::{MOST, Mailbox, Operation};
use numapilot_lab_init::{DOORBELL, Order, Report};
use numapilot_sys::mark::call_host;
use numapilot_sys::shared::SharedWords;
use rustix::fs::OFlags;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use super::Trouble;

const DEVICES: &str = "/sys/bus/pci/devices";

/// The connection to the host.
#[derive(Clone, Debug)]
pub struct Ports(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    mailbox: Mutex<Mailbox<SharedWords>>,
    doorbell: File,
    /// Number of times that the doorbell was read: each announces one or more orders or inputs.
    rings: Mutex<u64>,
    rung: Condvar,
}

impl Ports {
    /// Finds the mailbox, and opens the doorbell.
    pub fn open() -> Result<Self, Trouble> {
        let devices = fs::read_dir(DEVICES).map_err(Trouble::at::<io::Error>("read", DEVICES))?;
        for device in devices.flatten().map(|entry| entry.path()) {
            let identity = ["vendor", "device"].map(|name| fs::read_to_string(device.join(name)));
            let is_shared_memory = identity
                .iter()
                .zip(["0x1af4", "0x1110"])
                .all(|(read, expected)| read.as_ref().is_ok_and(|text| text.trim() == expected));
            if is_shared_memory && let Some(mailbox) = open(&device)? {
                return Ok(Self(Arc::new(Shared {
                    mailbox: Mutex::new(mailbox),
                    doorbell: doorbell()?,
                    rings: Mutex::new(0),
                    rung: Condvar::new(),
                })));
            }
        }
        Err(Trouble::at("find the mailbox in", DEVICES)(io::Error::from(io::ErrorKind::NotFound)))
    }

    fn call(&self, operation: Operation, data: &[u8]) -> io::Result<Vec<u8>> {
        let mailbox = self.0.mailbox.lock().unwrap_or_else(PoisonError::into_inner);
        mailbox.call(operation, data, call_host)
    }

    /// Sends a report to the host.
    pub fn report(&self, report: &Report) -> Result<(), Trouble> {
        self.call(Operation::Report, format!("{report}\n").as_bytes())
            .map(drop)
            .map_err(Trouble::at("report to", "the host"))
    }

    /// Writes all bytes to a stream of the host.
    pub fn write(&self, stream: Operation, bytes: &[u8]) -> io::Result<()> {
        bytes.chunks(MOST).try_for_each(|part| self.call(stream, part).map(drop))
    }

    /// Waits for the program's input on the host, and reads some of it; nothing at its end.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        loop {
            let before = *self.rings();
            match self.call(Operation::Stdin, &[]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.call(Operation::Report, format!("{}\n", Report::Starved).as_bytes())?;
                    let rings = self.rings();
                    let rung = self.0.rung.wait_while(rings, |rings| *rings == before);
                    drop(rung.unwrap_or_else(PoisonError::into_inner));
                }
                result => return result,
            }
        }
    }

    fn rings(&self) -> MutexGuard<'_, u64> {
        self.0.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread that waits for orders and passes them on. It acknowledges signals, because
    /// the host ends a guest that does not.
    pub fn orders(&self) -> Receiver<Order> {
        let (ports, (send, receive)) = (self.clone(), mpsc::channel());
        thread::spawn(move || {
            let mut pending = String::new();
            // An error means that the host has closed its end and is ending the machine.
            while ports.take_orders(&mut pending).is_ok() {
                while let Some((line, rest)) = pending.split_once('\n') {
                    match line.parse() {
                        Ok(order) => {
                            if send.send(order).is_err() {
                                return;
                            }
                            if let Order::Signal(_) = order {
                                let _ = ports.report(&Report::Heard);
                            }
                        }
                        Err(why) => eprintln!("orders: {why}"),
                    }
                    pending = rest.to_owned();
                }
                if (&ports.0.doorbell).read(&mut [0; 64]).is_err() {
                    return;
                }
                *ports.rings() += 1;
                ports.0.rung.notify_all();
            }
        });
        receive
    }

    /// Appends the text of the orders that have arrived.
    fn take_orders(&self, pending: &mut String) -> io::Result<()> {
        loop {
            match self.call(Operation::Orders, &[]) {
                Ok(bytes) if bytes.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => *pending += &String::from_utf8_lossy(&bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until the host ends the machine.
    pub fn wait_for_end(&self) -> ! {
        loop {
            thread::park();
        }
    }
}

/// Opens the doorbell in raw mode, so that each byte arrives at once and unchanged.
fn doorbell() -> Result<File, Trouble> {
    // Without this flag, the port would become the controlling terminal of this process.
    let no_terminal = OFlags::NOCTTY.bits().cast_signed();
    let port = File::options().read(true).write(true).custom_flags(no_terminal).open(DOORBELL);
    let port = port.map_err(Trouble::at::<io::Error>("open", DOORBELL))?;
    let mut modes = tcgetattr(&port).map_err(Trouble::at("set up", DOORBELL))?;
    modes.make_raw();
    tcsetattr(&port, OptionalActions::Now, &modes).map_err(Trouble::at("set up", DOORBELL))?;
    Ok(port)
}

/// The mailbox in a device's memory; `None` if the memory is something else, such as the PMU.
fn open(device: &Path) -> Result<Option<Mailbox<SharedWords>>, Trouble> {
    let at = |what| Trouble::at::<io::Error>(what, device);
    fs::write(device.join("enable"), "1").map_err(at("enable"))?;
    let memory = File::options().read(true).write(true).open(device.join("resource2"));
    let memory =
        memory.and_then(|file| SharedWords::map(&file)).map_err(at("map the memory of"))?;
    Ok(Mailbox::open(memory))
}
