//! Whether processes can be looked at by their number, for the verbs that do.

use numapilot_cli_kit::terminal::Terminal;
use numapilot_place::{ForeignProc, check_proc};

/// For verbs whose figures and orders would be about another process.
///
/// # Errors
/// When `/proc` shows another PID namespace.
pub fn require() -> Result<(), ForeignProc> {
    check_proc()
}

/// For verbs that can do without, in part: what they cannot do is `lost`.
pub fn prefer(terminal: &Terminal, lost: &str) {
    if let Err(error) = check_proc() {
        terminal.warn(format_args!("{error}; {lost}"));
    }
}
