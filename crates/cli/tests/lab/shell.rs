//! `numapilot lab shell` on a terminal: the way out of it, and the terminal afterwards.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

use crate::course::emulator_of;
use crate::guests::{NUMAPILOT, boots, signal};

/// A terminal with a lab's shell on it.
struct Session {
    /// The user's side.
    keys: File,
    /// The program's side.
    terminal: File,
    screen: Arc<Mutex<String>>,
    seen: usize,
    shell: Child,
    /// Flags before it was started.
    before: String,
}

impl Session {
    fn open() -> Self {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap().into_string().unwrap();
        let terminal = File::options().read(true).write(true).open(name).unwrap();
        let keys = File::from(keys);
        resize(&keys, 24, 80);
        let before = flags(&terminal);
        let end = || terminal.try_clone().unwrap();
        let shell = Command::new(NUMAPILOT)
            .args(["lab", "shell", "-m", "i9-7900x", "--no-model"])
            .env("TERM", "xterm")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let (mut from, to) = (keys.try_clone().unwrap(), Arc::clone(&screen));
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = from.read(&mut buffer) {
                to.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        });
        Self { keys, terminal, screen, seen: 0, shell, before }
    }

    /// Waits for text after what was waited for before.
    fn expect(&mut self, text: &str) {
        let limit = Instant::now() + Duration::from_secs(200);
        loop {
            let screen = self.screen.lock().unwrap().clone();
            if let Some(at) = screen[self.seen..].find(text) {
                self.seen += at + text.len();
                return;
            }
            assert!(Instant::now() < limit, "no {text:?} in {:?}", &screen[self.seen..]);
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Its status, once the terminal is as it was.
    fn status(&mut self) -> Option<i32> {
        let status = self.shell.wait().unwrap().code();
        assert_eq!(flags(&self.terminal), self.before, "the terminal is not as it was");
        status
    }
}

/// All that `stty -a` shows of a terminal.
fn flags(terminal: &File) -> String {
    format!("{:?}", tcgetattr(terminal).unwrap())
}

fn resize(terminal: &File, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

#[test]
fn there_is_a_way_out_of_a_shell() {
    if !boots() {
        return;
    }
    // Before the guest has the terminal, Ctrl-C is for numapilot.
    let mut shell = Session::open();
    emulator_of(&shell.shell);
    signal(&shell.shell, libc::SIGINT);
    assert_eq!(shell.status(), Some(128 + libc::SIGINT));
    let mut shell = Session::open();
    shell.expect("# ");
    shell.press("trap '' INT HUP TERM; while :; do :; done\r");
    shell.expect("done");
    shell.press("\x1d\x1d\x1d");
    assert_eq!(shell.status(), Some(128 + libc::SIGKILL));
}
