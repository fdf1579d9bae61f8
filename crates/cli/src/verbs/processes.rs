//! Checks whether processes can be inspected by their number, for the verbs that need it.

use numapilot_cli_kit::terminal::Terminal;
use numapilot_place::{ForeignProc, check_proc};

/// For verbs that would otherwise measure or change the wrong process.
///
/// # Errors
/// Fails if `/proc` shows another PID namespace.
pub fn require() -> Result<(), ForeignProc> {
    check_proc()
}

/// For verbs that can partly do without; `lost` names the part that they cannot do.
pub fn prefer(terminal: &Terminal, lost: &str) {
    if let Err(error) = check_proc() {
        terminal.warn(format_args!("{error}; {lost}"));
    }
}
