//! `numapilot lab shell` on a terminal: leaving it, and the terminal's state afterwards.

use std::process::{Child, Command};
use std::time::Duration;

use crate::course::emulator_of;
use crate::guests::{NUMAPILOT, boots, signal};
use crate::terminal::Terminal;

/// A terminal with a lab's shell.
struct Session {
    terminal: Terminal,
    shell: Child,
    /// The terminal's flags before the start.
    before: String,
}

impl Session {
    fn open() -> Self {
        let terminal = Terminal::open();
        let before = flags(&terminal);
        let shell = terminal.start(Command::new(NUMAPILOT).args([
            "lab",
            "shell",
            "-m",
            "i9-7900x",
            "--no-model",
        ]));
        Self { terminal, shell, before }
    }

    fn expect(&mut self, text: &str) {
        self.terminal.expect(text, Duration::from_secs(200));
    }

    /// The exit status, once the terminal's flags are restored.
    fn status(&mut self) -> Option<i32> {
        let status = self.shell.wait().unwrap().code();
        assert_eq!(flags(&self.terminal), self.before, "the terminal is not as it was");
        status
    }
}

/// Everything that `stty -a` shows of a terminal.
fn flags(terminal: &Terminal) -> String {
    format!("{:?}", terminal.modes())
}

#[test]
fn there_is_a_way_out_of_a_shell() {
    if !boots() {
        return;
    }
    // Until the guest has the terminal, Ctrl-C goes to numapilot.
    let mut shell = Session::open();
    emulator_of(&shell.shell);
    signal(&shell.shell, libc::SIGINT);
    assert_eq!(shell.status(), Some(128 + libc::SIGINT));
    let mut shell = Session::open();
    shell.expect("# ");
    shell.terminal.press("trap '' INT HUP TERM; while :; do :; done\r");
    shell.expect("done");
    shell.terminal.press("\x1d\x1d\x1d");
    assert_eq!(shell.status(), Some(128 + libc::SIGKILL));
}
