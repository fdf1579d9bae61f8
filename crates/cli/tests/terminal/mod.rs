//! A pseudo-terminal with a program on it, to test what is shown there.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

/// A terminal of 80 by 24.
pub struct Terminal {
    /// The user's side.
    keys: File,
    /// The program's side.
    program: File,
    screen: Arc<Mutex<String>>,
    seen: usize,
}

impl Terminal {
    pub fn open() -> Self {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap().into_string().unwrap();
        let program = File::options().read(true).write(true).open(name).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&keys, size).unwrap();
        let keys = File::from(keys);
        let screen = Arc::new(Mutex::new(String::new()));
        let (mut from, to) = (keys.try_clone().unwrap(), Arc::clone(&screen));
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = from.read(&mut buffer) {
                to.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        });
        Self { keys, program, screen, seen: 0 }
    }

    /// Starts a program on it.
    pub fn start(&self, command: &mut Command) -> Child {
        let end = || self.program.try_clone().unwrap();
        let command = command.env("TERM", "xterm").stdin(end()).stdout(end()).stderr(end());
        command.spawn().unwrap()
    }

    /// Waits for a text after the one that was last waited for.
    pub fn expect(&mut self, text: &str, limit: Duration) {
        let deadline = Instant::now() + limit;
        loop {
            let screen = self.shown();
            if let Some(at) = screen[self.seen..].find(text) {
                self.seen += at + text.len();
                return;
            }
            assert!(Instant::now() < deadline, "no {text:?} in {:?}", &screen[self.seen..]);
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// All that was shown.
    pub fn shown(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Its flags.
    pub fn modes(&self) -> Termios {
        tcgetattr(&self.program).unwrap()
    }
}
