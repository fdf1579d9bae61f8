//! Versions of launchers: from the option `--version` of their program, or as the user states them.

use std::cmp::Ordering;
use std::fmt;
use std::io::Read;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;

/// A program that does not print its version within this time is taken for absent.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time between two looks at the program.
const PAUSE: Duration = Duration::from_millis(5);
/// Most bytes of its output that are read; less than a pipe holds.
const MAX_BYTES: u64 = 16 << 10;

/// A version: numbers that are compared one after the other. A number that is missing is 0, so 1.4
/// is 1.4.0.
#[derive(Clone, Debug)]
pub struct Version(Vec<u32>);

/// The text is no version.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{0}' is not a version; write numbers with points between them, as 252 or 1.1.5")]
pub struct VersionError(String);

impl Version {
    /// The version of these numbers.
    pub(super) fn new(numbers: &[u32]) -> Self {
        Self(numbers.to_vec())
    }

    /// The first version in the output of a program: `252` in `systemd 252 (252.38-1)`.
    fn first_in(text: &str) -> Option<Self> {
        let words = text.split_whitespace();
        words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit())).find_map(|word| {
            let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
            word[..end].trim_end_matches('.').parse().ok()
        })
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let number = |version: &Self, at: usize| version.0.get(at).copied().unwrap_or(0);
        let most = self.0.len().max(other.0.len());
        let orders = (0..most).map(|at| number(self, at).cmp(&number(other, at)));
        orders.fold(Ordering::Equal, Ordering::then)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let number = |part: &str| part.parse().ok().filter(|_| is_number(part));
        let numbers: Option<Vec<u32>> = text.split('.').map(number).collect();
        numbers.map(Self).ok_or_else(|| VersionError(text.escape_debug().to_string()))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&numbers.join("."))
    }
}

/// The version that a program prints; `None` if it is missing, fails or does not answer.
pub(super) fn of(program: &str) -> Option<Version> {
    output(program, "--version").as_deref().and_then(Version::first_in)
}

/// What a program prints with an option, on both streams; `None` if it is missing, or does not end
/// in time.
pub(super) fn output(program: &str, option: &str) -> Option<String> {
    let mut child = Command::new(program)
        .arg(option)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let started = Instant::now();
    while child.try_wait().ok()?.is_none() {
        if started.elapsed() > PATIENCE {
            // Nothing can be done about an error: the program has ended, or nobody may end it.
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(PAUSE);
    }
    let mut text = Vec::new();
    child.stdout.take()?.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    child.stderr.take()?.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_in_what_programs_print() {
        let first = |text: &str| Version::first_in(text).map(|version| version.to_string());
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(first("systemd 252 (252.38-1~deb12u1)\n+PAM"), some("252"));
        assert_eq!(first("runc version 1.1.5+ds1\ncommit: 1.1.5"), some("1.1.5"));
        assert_eq!(first("runc version 1.4.0-rc.2\n"), some("1.4.0"));
        assert_eq!(first("Docker version 27.3.1, build ce12230"), some("27.3.1"));
        assert_eq!(first("usage: x"), None);
        assert_eq!(first(""), None);
    }

    #[test]
    fn versions_are_compared_by_number() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        assert!(version("1.10") > version("1.9.9"));
        assert!(version("2.0.19") > version("2.0.19".trim_end_matches('9')));
        assert!(version("252") < version("260"));
        assert_eq!(version("1.4"), version("1.4.0"));
        assert!(version("1.4") < version("1.4.0.1") && version("1.4.1") > version("1.4"));
        assert_eq!(version("1.4").to_string(), "1.4");
        for wrong in ["", "x", "1.", "1..2", "-1", "+1", "99999999999", "1.2-3", " 1"] {
            let error = wrong.parse::<Version>().unwrap_err().to_string();
            assert!(error.contains("252 or 1.1.5"), "{error}");
        }
    }

    #[test]
    fn a_program_that_is_not_there_has_no_version() {
        assert_eq!(of("numapilot-no-such-program"), None);
        assert_eq!(output("true", "--version").as_deref().and_then(Version::first_in), of("true"));
    }
}
