//! What a daemon has done for a program, by its messages.

use crate::Note;

/// What `balance` says about a program that ended before its first interval was over.
pub const NOTHING_YET: &str =
    "it ended before the first interval (--interval) was over, so nothing was moved";

/// Why a daemon has done nothing.
pub(crate) const TOO_SHORT: &str = "the program ended before the daemon had decided anything";
const REMEDY: &str = "numapilot doctor shows what it needs";

/// The outcome of one daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its verb.
    pub verb: &'static str,
    /// Whether it ran.
    pub state: State,
}

/// Whether a daemon ran beside the program until its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It did, with its summary.
    Ran(String),
    /// The program ended before the daemon had decided anything.
    TooShort,
    /// It did not, for this reason.
    Failed(String),
}

impl Outcome {
    /// The user's name of the setting.
    #[must_use]
    pub fn setting(&self) -> String {
        format!("daemons {}", self.verb)
    }

    /// The note about a daemon that did not run until the end.
    #[must_use]
    pub fn note(&self) -> Option<Note> {
        let State::Failed(cause) = &self.state else { return None };
        // Most messages have a remedy of their own.
        let (cause, remedy) = cause.split_once("; ").unwrap_or((cause, REMEDY));
        Some(Note::new(self.setting(), cause, remedy))
    }

    /// The note about a daemon that has done nothing, so that figures of the program are not its.
    #[must_use]
    pub fn idle_note(&self) -> Option<Note> {
        match self.state {
            State::TooShort => Some(Note::new(self.setting(), TOO_SHORT, "let it run longer")),
            _ => self.note(),
        }
    }
}

impl State {
    /// By the messages of a daemon, which ended by itself before the program or did not. A summary
    /// at the end is the evidence.
    pub(super) fn of(verb: &str, messages: &str, ended_early: bool) -> Self {
        let line = |line: &str| line.strip_prefix("numapilot: ").unwrap_or(line).trim().to_owned();
        let lines: Vec<String> =
            messages.lines().map(line).filter(|line| !line.is_empty()).collect();
        let own = format!("{verb}: ");
        let summary = lines.iter().rev().find_map(|line| line.strip_prefix(&own));
        let complaint = lines.iter().rev().find(|line| !line.starts_with(&own));
        let complaint =
            complaint.map(|line| line.split_once(": ").map_or(&**line, |(_, text)| text));
        if ended_early {
            let why = complaint.or(summary).unwrap_or("it left no message");
            return Self::Failed(format!("numapilot {verb} ended before the program: {why}"));
        }
        match (summary, complaint) {
            (None | Some(NOTHING_YET), _) => Self::TooShort,
            (Some(summary), None) => Self::Ran(summary.to_owned()),
            (Some(summary), Some(other)) => Self::Ran(format!("{summary}; {other}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_failed_is_not_in_effect() {
        let of = |messages: &str, early| State::of("balance", messages, early);
        let summary = "numapilot: balance: 12 MiB moved by 90 samples in 3 intervals\n";
        let seen = "12 MiB moved by 90 samples in 3 intervals";
        assert_eq!(of(summary, false), State::Ran(seen.to_owned()));
        // A signal has ended it.
        let cause = format!("numapilot balance ended before the program: {seen}");
        assert_eq!(of(summary, true), State::Failed(cause));
        let warned = format!("numapilot: warning: process 7 is left: no permission\n{summary}");
        let left = format!("{seen}; process 7 is left: no permission");
        assert_eq!(of(&warned, false), State::Ran(left));
        let early = format!("numapilot: balance: {NOTHING_YET}\n");
        assert_eq!(of(&early, false), State::TooShort);
        assert_eq!(of("", false), State::TooShort);
        // It began when the program had ended.
        assert_eq!(of("numapilot: error: process 7 does not exist\n", false), State::TooShort);
        let cause = "numapilot balance ended before the program: no samples".to_owned();
        assert_eq!(of("numapilot: error: no samples\n", true), State::Failed(cause));
        assert!(matches!(of("", true), State::Failed(_)));
    }
}
