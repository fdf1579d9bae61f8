//! From what a program printed and used to an outcome.

use regex::Regex;
use regex_syntax::hir::{Hir, HirKind};
use thiserror::Error;

use super::number::{Decimal, NumberError, number};
use crate::evidence::{Failure, Outcome};
use crate::shape::{Candidate, DEFAULT};

/// What is compared.
#[derive(Clone, Debug)]
pub enum Metric {
    /// Wall time in seconds.
    WallTime,
    /// The first group of the last match in the output, as a number.
    Matched {
        /// With a group that matches something.
        regex: Regex,
        /// What separates decimals, where a number alone does not say.
        decimal: Option<Decimal>,
    },
}

/// Why an expression gives no metric.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MetricError {
    /// No group.
    #[error("'{0}' has no group; put the number in one, as in 'tps = ([0-9.]+)'")]
    NoGroup(String),
    /// The first group may match nothing.
    #[error(
        "the first group of '{0}' can match an empty text, which is no number; have it match a \
         digit at least, as in 'tps = ([0-9.]+)'"
    )]
    EmptyGroup(String),
}

impl Metric {
    /// The number that an expression finds.
    ///
    /// # Errors
    /// [`MetricError`]: it can be told beforehand that there will be none.
    pub fn matched(regex: Regex, decimal: Option<Decimal>) -> Result<Self, MetricError> {
        let group = regex_syntax::parse(regex.as_str()).ok().and_then(|hir| first_group(&hir));
        match group {
            None => Err(MetricError::NoGroup(regex.to_string())),
            Some(0) => Err(MetricError::EmptyGroup(regex.to_string())),
            Some(_) => Ok(Self::Matched { regex, decimal }),
        }
    }
}

/// Bytes that the first group matches at least; `None` without one.
fn first_group(hir: &Hir) -> Option<usize> {
    match hir.kind() {
        HirKind::Capture(capture) if capture.index == 1 => {
            // What can match nothing at all has no least length.
            Some(capture.sub.properties().minimum_len().unwrap_or(1))
        }
        HirKind::Capture(capture) => first_group(&capture.sub),
        HirKind::Repetition(repetition) => first_group(&repetition.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().find_map(first_group),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => None,
    }
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
        let Metric::Matched { regex, decimal } = &self.metric else {
            return Outcome::Value(seconds);
        };
        let why = match last_number(regex, text, *decimal) {
            Ok(value) => return Outcome::Value(value),
            Err(NoNumber::NoMatch) => format!("no output matches --metric '{regex}'"),
            Err(NoNumber::Unreadable { matched, why }) => {
                format!("--metric '{regex}' matched '{matched}': {why}")
            }
            Err(NoNumber::NotPositive(matched)) => {
                format!("--metric '{regex}' matched '{matched}', which is no number above 0")
            }
        };
        Outcome::Failed(Failure::NoFigure(why))
    }
}

/// Why a text gives no figure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoNumber {
    /// Nothing matches.
    #[error("the output has no figure")]
    NoMatch,
    /// What matches cannot be read.
    #[error("the output's figure '{matched}': {why}")]
    Unreadable {
        /// As printed.
        matched: String,
        /// Why.
        why: NumberError,
    },
    /// No logarithm.
    #[error("the output's figure '{0}' is no number above 0")]
    NotPositive(String),
}

/// The number above 0 in the first group of the last match.
///
/// # Errors
/// [`NoNumber`].
pub fn last_number(regex: &Regex, text: &str, decimal: Option<Decimal>) -> Result<f64, NoNumber> {
    let matched = last_match(regex, text).ok_or(NoNumber::NoMatch)?;
    match number(matched, decimal) {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        Ok(_) => Err(NoNumber::NotPositive(matched.to_owned())),
        Err(why) => Err(NoNumber::Unreadable { matched: matched.to_owned(), why }),
    }
}

/// The first group of the last match that has one, or all of the last match of an expression
/// without groups.
fn last_match<'t>(regex: &Regex, text: &'t str) -> Option<&'t str> {
    let group = usize::from(regex.captures_len() > 1);
    let matches = regex.captures_iter(text).filter_map(|captures| captures.get(group));
    matches.last().map(|found| found.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: Candidate = Candidate(1);

    fn judge(metric: &str, check: Option<&str>) -> Judge {
        let regex = |text: &str| Regex::new(text).unwrap();
        Judge::new(
            Metric::matched(regex(metric), None).unwrap(),
            check.map(regex),
            Limits::default(),
        )
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
        let ambiguous = failure(judge.outcome(DEFAULT, "tps = 1,021", 1.0, 0));
        assert!(ambiguous.contains("1,021") && ambiguous.contains("--decimal"), "{ambiguous}");
    }

    #[test]
    fn decimal_commas_are_decimals() {
        let metric = |decimal| {
            let regex = Regex::new(r"real.*m([0-9,]+)s").unwrap();
            Judge::new(Metric::matched(regex, decimal).unwrap(), None, Limits::default())
        };
        let mut comma = metric(Some(Decimal::Comma));
        assert_eq!(comma.outcome(DEFAULT, "real 0m1,021s", 1.0, 0), Outcome::Value(1.021));
        assert_eq!(comma.outcome(DEFAULT, "real 0m1,5s", 1.0, 0), Outcome::Value(1.5));
        assert_eq!(metric(None).outcome(DEFAULT, "real 0m1,5s", 1.0, 0), Outcome::Value(1.5));
        assert!(failure(metric(None).outcome(DEFAULT, "real 0m1,021s", 1.0, 0)).contains("comma"));
    }

    #[test]
    fn an_expression_that_gives_no_number_is_refused() {
        let metric = |text: &str| Metric::matched(Regex::new(text).unwrap(), None).map(drop);
        let (no, empty) = (MetricError::NoGroup, MetricError::EmptyGroup);
        for text in ["tps", "tps = [0-9]+", "(?:tps)"] {
            assert_eq!(metric(text), Err(no(text.into())));
        }
        for text in ["tps = ([0-9.]*)", "(a|)b", "()x", "x(\\b)"] {
            assert_eq!(metric(text), Err(empty(text.into())));
        }
        for text in ["tps = ([0-9.]+)", "(?i)a(b)|c", "(?:x ([0-9]))+"] {
            assert_eq!(metric(text), Ok(()), "{text}");
        }
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
