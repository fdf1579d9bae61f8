//! From what a program printed and used to an outcome.

use regex::Regex;
use thiserror::Error;

use crate::evidence::{Failure, Outcome};
use crate::shape::{Candidate, DEFAULT};

/// What is compared.
#[derive(Clone, Debug)]
pub enum Metric {
    /// Wall time in seconds.
    WallTime,
    /// The first group (or all) of the last match in the output, as a number.
    Matched(Regex),
}

/// What a run may use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Peak resident memory.
    pub rss_bytes: Option<u64>,
    /// Wall time.
    pub seconds: Option<f64>,
}

/// Judges runs that ended with status 0.
#[derive(Clone, Debug)]
pub struct Judge {
    metric: Metric,
    check: Option<Regex>,
    limits: Limits,
    answer: Option<String>,
}

impl Judge {
    /// A judge; with `check`, every plan has to give the default's answer.
    #[must_use]
    pub fn new(metric: Metric, check: Option<Regex>, limits: Limits) -> Self {
        Self { metric, check, limits, answer: None }
    }

    /// Expects the answer that the default gave in an earlier part of the search.
    pub fn restore_answer(&mut self, answer: Option<String>) {
        self.answer = answer;
    }

    /// The answer all plans have to give, once known.
    #[must_use]
    pub fn answer(&self) -> Option<&str> {
        self.answer.as_deref()
    }

    /// What came of a run; the first of the default sets the answer.
    pub fn outcome(
        &mut self,
        candidate: Candidate,
        text: &str,
        seconds: f64,
        peak_rss_bytes: u64,
    ) -> Outcome {
        let checked = self.check_answer(candidate, text);
        match checked.and_then(|()| self.within(seconds, peak_rss_bytes)) {
            Ok(()) => self.value(text, seconds),
            Err(failure) => Outcome::Failed(failure),
        }
    }

    fn check_answer(&mut self, candidate: Candidate, text: &str) -> Result<(), Failure> {
        let Some(check) = &self.check else { return Ok(()) };
        let Some(got) = last_match(check, text) else {
            return Err(Failure::NoFigure(format!("no output matches --check '{check}'")));
        };
        let expected = match &self.answer {
            None if candidate == DEFAULT => self.answer.insert(got.to_owned()),
            None => return Err(Failure::NoFigure("the default has given no answer yet".into())),
            Some(answer) => answer,
        };
        if expected == got {
            return Ok(());
        }
        Err(Failure::WrongAnswer { expected: expected.clone(), got: got.to_owned() })
    }

    fn within(&self, seconds: f64, peak_rss_bytes: u64) -> Result<(), Failure> {
        if let Some(limit) = self.limits.rss_bytes.filter(|&limit| peak_rss_bytes > limit) {
            // Of figures far below 2^52.
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            return Err(Failure::OverLimit(format!(
                "peak RSS {:.1} MiB, limit {:.1} MiB",
                mib(peak_rss_bytes),
                mib(limit)
            )));
        }
        if let Some(limit) = self.limits.seconds.filter(|&limit| seconds > limit) {
            return Err(Failure::OverLimit(format!("{seconds:.3} s, limit {limit} s")));
        }
        Ok(())
    }

    fn value(&self, text: &str, seconds: f64) -> Outcome {
        let Metric::Matched(metric) = &self.metric else { return Outcome::Value(seconds) };
        match last_number(metric, text) {
            Ok(value) => Outcome::Value(value),
            Err(NoNumber::NoMatch) => Outcome::Failed(Failure::NoFigure(format!(
                "no output matches --metric '{metric}'; it needs one group around the number"
            ))),
            Err(NoNumber::NotPositive(matched)) => Outcome::Failed(Failure::NoFigure(format!(
                "--metric '{metric}' matched '{matched}', which is no number above 0"
            ))),
        }
    }
}

/// Why a text gives no figure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoNumber {
    /// Nothing matches.
    #[error("the output has no figure")]
    NoMatch,
    /// What matches is something else.
    #[error("the output's figure '{0}' is no number above 0")]
    NotPositive(String),
}

/// The number above 0 in the first group of the last match.
///
/// # Errors
/// [`NoNumber`].
pub fn last_number(regex: &Regex, text: &str) -> Result<f64, NoNumber> {
    let matched = last_match(regex, text).ok_or(NoNumber::NoMatch)?;
    // Thousands separators are common in what programs print for people.
    match matched.trim().replace([',', '_'], "").parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err(NoNumber::NotPositive(matched.to_owned())),
    }
}

/// The first group, or all of it where there is none, of the last match.
fn last_match<'t>(regex: &Regex, text: &'t str) -> Option<&'t str> {
    let captures = regex.captures_iter(text).last()?;
    captures.get(1).or_else(|| captures.get(0)).map(|m| m.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: Candidate = Candidate(1);

    fn judge(metric: &str, check: Option<&str>) -> Judge {
        let regex = |text: &str| Regex::new(text).unwrap();
        Judge::new(Metric::Matched(regex(metric)), check.map(regex), Limits::default())
    }

    fn failure(outcome: Outcome) -> String {
        match outcome {
            Outcome::Failed(failure) => failure.to_string(),
            Outcome::Value(value) => panic!("no failure but {value}"),
        }
    }

    #[test]
    fn the_last_match_counts() {
        let mut judge = judge(r"tps = ([\d,.]+)", None);
        let outcome = judge.outcome(DEFAULT, "tps = 1\ntps = 12,345.5\nend", 1.0, 0);
        assert_eq!(outcome, Outcome::Value(12345.5));
        assert!(failure(judge.outcome(DEFAULT, "none", 1.0, 0)).contains("--metric"));
        assert!(failure(judge.outcome(DEFAULT, "tps = 0", 1.0, 0)).contains("above 0"));
    }

    #[test]
    fn the_answer_is_the_defaults() {
        let mut judge = judge(r"t=(\d+)", Some(r"sum=(\w+)"));
        assert!(failure(judge.outcome(OTHER, "t=1 sum=a", 1.0, 0)).contains("no answer yet"));
        assert_eq!(judge.outcome(DEFAULT, "t=1 sum=a", 1.0, 0), Outcome::Value(1.0));
        assert_eq!(judge.outcome(OTHER, "t=2 sum=a", 1.0, 0), Outcome::Value(2.0));
        assert_eq!(
            failure(judge.outcome(OTHER, "t=2 sum=b", 1.0, 0)),
            "wrong answer: \"b\" instead of \"a\""
        );
        assert!(failure(judge.outcome(OTHER, "t=2", 1.0, 0)).contains("--check"));
        // A default that contradicts itself is no measure for others.
        assert!(failure(judge.outcome(DEFAULT, "t=1 sum=c", 1.0, 0)).contains("wrong"));
    }

    #[test]
    fn limits_are_upper_bounds() {
        let limits = Limits { rss_bytes: Some(1 << 20), seconds: Some(2.0) };
        let mut judge = Judge::new(Metric::WallTime, None, limits);
        assert_eq!(judge.outcome(OTHER, "", 2.0, 1 << 20), Outcome::Value(2.0));
        assert!(failure(judge.outcome(OTHER, "", 1.0, 3 << 19)).contains("1.5 MiB, limit 1.0 MiB"));
        assert!(failure(judge.outcome(OTHER, "", 2.1, 1)).contains("limit 2 s"));
    }
}
