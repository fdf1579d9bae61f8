//! This process's terminal, handed through to a shell in the guest.

use std::io::{self, Stdin};

use numapilot_lab_init::WindowSize;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::LabError;

/// A terminal that passes every key on; as it was before once this is dropped.
pub struct Raw {
    terminal: Stdin,
    before: Termios,
}

impl Raw {
    /// Takes the terminal over.
    pub fn new() -> Result<Self, LabError> {
        let terminal = io::stdin();
        let before = tcgetattr(&terminal).map_err(LabError::host("use the terminal"))?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&terminal, OptionalActions::Now, &raw)
            .map_err(LabError::host("use the terminal"))?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing put back.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// The terminal's size now.
pub fn size() -> Option<WindowSize> {
    let size = tcgetwinsize(io::stdin()).ok()?;
    Some(WindowSize { rows: size.ws_row, columns: size.ws_col })
}
