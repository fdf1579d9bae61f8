//! The exit status of a program as numapilot passes it on (docs/src/exit-status.md).

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// The status, or 128 plus the signal that ended the program.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(255);
    u8::try_from(code).unwrap_or(255)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_added_to_128() {
        assert_eq!(exit_code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
    }
}
