//! The virtual console as the terminal of a shell.

use std::fs::File;

use numapilot_lab_init::WindowSize;
use rustix::process::{Pid, Signal, kill_process_group, setsid};
use rustix::termios::{Winsize, tcsetpgrp, tcsetwinsize};

use super::Trouble;

/// Device of the first virtual console.
const DEVICE: &str = "/dev/hvc0";

/// The controlling terminal of this session.
pub struct Terminal(pub File);

impl Terminal {
    /// Opens the console. This process leads a session without a terminal, so the console becomes
    /// its controlling terminal (credentials(7)).
    pub fn open(size: WindowSize) -> Result<Self, Trouble> {
        setsid().map_err(Trouble::at("cannot lead a session for", DEVICE))?;
        let file = File::options()
            .read(true)
            .write(true)
            .open(DEVICE)
            .map_err(Trouble::at("cannot open", DEVICE))?;
        let terminal = Self(file);
        terminal.resize(size);
        Ok(terminal)
    }

    /// Sets the terminal's size.
    pub fn resize(&self, size: WindowSize) {
        let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
        // A terminal of the wrong size is still usable.
        let _ = tcsetwinsize(&self.0, size);
    }

    /// Makes this group the foreground group, which receives Ctrl-C. A program of the group that
    /// used the terminal earlier, and was stopped for it, continues.
    pub fn foreground(&self, group: Pid) -> Result<(), Trouble> {
        tcsetpgrp(&self.0, group).map_err(Trouble::at("cannot give the foreground on", DEVICE))?;
        // The group may have ended in the meantime.
        let _ = kill_process_group(group, Signal::CONT);
        Ok(())
    }
}
