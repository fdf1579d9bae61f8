//! The messages between host and guest while the program runs, one line each.

use std::fmt;
use std::str::FromStr;

use crate::WindowSize;

/// A message from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Send this signal to the program.
    Signal(i32),
    /// Set the size of the terminal.
    Size(WindowSize),
}

/// A message from the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The program has started.
    Started,
    /// No more input is available: the guest waits for the doorbell.
    Starved,
    /// An order to send a signal has arrived in the guest.
    Heard,
    /// The program could not be started.
    Failed(Failure),
    /// The program has ended, with its status or 128+n when signal n ended it.
    Exited(u8),
}

/// Why the program did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The errno of starting the program; 0 when the guest itself could not be set up.
    pub errno: i32,
    /// The operation that failed.
    pub what: String,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal(number) => write!(f, "signal {number}"),
            Self::Size(size) => write!(f, "size {} {}", size.rows, size.columns),
        }
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let unknown = || format!("'{}' is not an order", line.escape_debug());
        let mut words = line.split(' ');
        let word = words.next().unwrap_or_default();
        let mut number = || words.next().and_then(|w| w.parse::<u16>().ok()).ok_or_else(unknown);
        match word {
            "signal" => Ok(Self::Signal(number()?.into())),
            "size" => Ok(Self::Size(WindowSize { rows: number()?, columns: number()? })),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => write!(f, "started"),
            Self::Starved => write!(f, "starved"),
            Self::Heard => write!(f, "heard"),
            Self::Failed(Failure { errno, what }) => {
                write!(f, "failed {errno} {}", what.escape_debug())
            }
            Self::Exited(status) => write!(f, "exited {status}"),
        }
    }
}

impl FromStr for Report {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let unknown = || format!("'{}' is not a report", line.escape_debug());
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "started" => Ok(Self::Started),
            "starved" => Ok(Self::Starved),
            "heard" => Ok(Self::Heard),
            "failed" => {
                let (errno, what) = rest.split_once(' ').ok_or_else(unknown)?;
                let errno = errno.parse().map_err(|_| unknown())?;
                Ok(Self::Failed(Failure { errno, what: what.to_owned() }))
            }
            "exited" => rest.parse().map(Self::Exited).map_err(|_| unknown()),
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use numapilot_test_kit::damaged;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_reported_is_understood() {
        let size = WindowSize { rows: 24, columns: 80 };
        for order in [Order::Signal(15), Order::Size(size)] {
            assert_eq!(order.to_string().parse(), Ok(order));
        }
        let failure = Failure { errno: 2, what: "no such program".to_owned() };
        for report in [
            Report::Started,
            Report::Starved,
            Report::Heard,
            Report::Failed(failure),
            Report::Exited(143),
        ] {
            assert_eq!(report.to_string().parse(), Ok(report));
        }
    }

    #[test]
    fn a_report_is_one_line() {
        let failure = Failure { errno: 0, what: "two\nlines".to_owned() };
        assert_eq!(Report::Failed(failure).to_string(), "failed 0 two\\nlines");
    }

    proptest! {
        #[test]
        fn a_damaged_order_is_understood_or_refused(line in damaged("size 24 80")) {
            if let Ok(order) = line.parse::<Order>() {
                prop_assert_eq!(order.to_string().parse(), Ok(order));
            }
        }

        #[test]
        fn a_damaged_report_is_understood_or_refused(line in damaged("failed 2 no such\\nprogram")) {
            // The text of a failure is shown with its escapes, which are not undone.
            if let Ok(report) = line.parse::<Report>() {
                let failed = matches!(report, Report::Failed(_));
                prop_assert!(failed && line.starts_with("failed ") || report.to_string() == line);
            }
        }
    }
}
