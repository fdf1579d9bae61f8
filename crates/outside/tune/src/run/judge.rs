//! Turns what a program printed and used into an outcome.

use regex::Regex;
use regex_syntax::hir::{Hir, HirKind};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::group::{self, Found};
use super::no_number::NoNumber;
use super::number::{Decimal, Kind};
use super::steady;
use crate::evidence::{Failure, Outcome, Values};
use crate::shape::{Candidate, DEFAULT};

/// The metric.
#[derive(Clone, Debug)]
pub enum Metric {
    /// Wall time in seconds.
    WallTime,
    /// The first group of the last match in the output, as a number.
    Matched {
        /// An expression with a group that matches at least one character.
        regex: Regex,
        /// The decimal sign, for ambiguous numbers.
        decimal: Option<Decimal>,
    },
}

/// Which matches of an expression count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Matches {
    /// The last one: the result that a program prints at its end.
    #[default]
    Last,
    /// The mean over the steady part of all: progress lines of a load.
    Steady,
}

/// Why an expression cannot be a metric.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MetricError {
    /// The expression has no group.
    #[error("'{0}' has no group; put the number in one, as in 'tps = ([0-9.]+)'")]
    NoGroup(String),
    /// The first group can match an empty text.
    #[error(
        "the first group of '{0}' can match an empty text, which is not a number; have it match a \
         digit at least, as in 'tps = ([0-9.]+)'"
    )]
    EmptyGroup(String),
}

impl Metric {
    /// The metric of an expression.
    ///
    /// # Errors
    /// [`MetricError`] if the expression can never give a number.
    pub fn matched(regex: Regex, decimal: Option<Decimal>) -> Result<Self, MetricError> {
        let group = regex_syntax::parse(regex.as_str()).ok().and_then(|hir| first_group(&hir));
        match group {
            None => Err(MetricError::NoGroup(regex.to_string())),
            Some(0) => Err(MetricError::EmptyGroup(regex.to_string())),
            Some(_) => Ok(Self::Matched { regex, decimal }),
        }
    }
}

/// The least bytes that the first group matches; `None` without a group.
fn first_group(hir: &Hir) -> Option<usize> {
    match hir.kind() {
        HirKind::Capture(capture) if capture.index == 1 => {
            // An expression that can never match has no least length.
            Some(capture.sub.properties().minimum_len().unwrap_or(1))
        }
        HirKind::Capture(capture) => first_group(&capture.sub),
        HirKind::Repetition(repetition) => first_group(&repetition.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().find_map(first_group),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => None,
    }
}

/// The limits of a run.
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
    matches: Matches,
    answer: Option<String>,
    written: Written,
}

/// The format of the metric's numbers, which must be the same in all runs for the numbers to be
/// comparable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The kind of unit, and the first number.
    kind: Option<(Kind, String)>,
    /// The common part of their units or of the words in place of units, and the first number.
    #[serde(default)]
    common: Option<(String, String)>,
    /// The decimal sign, and the first number that shows it.
    decimal: Option<(Decimal, String)>,
}

impl Written {
    /// Checks that this number has the format of the earlier ones. The first number sets the
    /// format.
    fn check(&mut self, found: &Found) -> Result<(), String> {
        let (text, reading) = (&found.text, found.reading);
        let (kind, first) = self.kind.get_or_insert_with(|| (reading.kind, text.clone()));
        if *kind != reading.kind {
            return Err(format!(
                "'{text}' has {} and '{first}' of an earlier run has {}, so they cannot be \
                 compared; have the program print one unit, or have the group match the number \
                 with its unit",
                name(reading.kind),
                name(*kind)
            ));
        }
        let (common, first) =
            self.common.get_or_insert_with(|| (found.common.clone(), text.clone()));
        if *common != found.common {
            return Err(format!(
                "'{text}' and '{first}' of an earlier run may differ in their units, so they \
                 cannot be compared; have the program print one unit, or have the expression match \
                 the unit after the group"
            ));
        }
        let Some(decimal) = reading.decimal else { return Ok(()) };
        let (known, first) = self.decimal.get_or_insert_with(|| (decimal, text.clone()));
        if *known != decimal {
            return Err(format!(
                "'{text}' and '{first}' of an earlier run are not written with the same decimal \
                 sign; say which it is with --decimal point or --decimal comma"
            ));
        }
        Ok(())
    }
}

/// Names the unit of a kind in a sentence.
fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Plain => "no unit",
        Kind::Time => "a unit of time",
        Kind::Bytes => "a unit of bytes",
        Kind::Bits => "a unit of bits",
        Kind::Percent => "a percent sign",
    }
}

impl Judge {
    /// Makes a judge. With `check`, every plan has to give the default's answer.
    #[must_use]
    pub fn new(metric: Metric, check: Option<Regex>, limits: Limits) -> Self {
        let (answer, written) = (None, Written::default());
        Self { metric, check, limits, matches: Matches::default(), answer, written }
    }

    /// Chooses the matches of the metric's expression that count.
    #[must_use]
    pub fn counting(self, matches: Matches) -> Self {
        Self { matches, ..self }
    }

    /// Sets the answer that the default gave in an earlier part of the search.
    pub fn restore_answer(&mut self, answer: Option<String>) {
        self.answer = answer;
    }

    /// Sets the format of numbers from an earlier part of the search.
    pub fn restore_written(&mut self, written: Written) {
        self.written = written;
    }

    /// The format of the numbers so far.
    #[must_use]
    pub fn written(&self) -> &Written {
        &self.written
    }

    /// The answer that all plans have to give, once known.
    #[must_use]
    pub fn answer(&self) -> Option<&str> {
        self.answer.as_deref()
    }

    /// Judges a run, and returns the values of which its figure is the mean, if they are several.
    /// The first run of the default sets the answer.
    pub fn judge(
        &mut self,
        candidate: Candidate,
        text: &str,
        seconds: f64,
        peak_rss_bytes: u64,
    ) -> (Outcome, Option<Values>) {
        let checked = self.check_answer(candidate, text);
        let within = checked.and_then(|()| self.within(seconds, peak_rss_bytes));
        match within.and_then(|()| self.value(text, seconds)) {
            Ok((value, values)) => (Outcome::Value(value), values),
            Err(failure) => (Outcome::Failed(failure), None),
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
            // Exact: the values are far below 2^52.
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

    fn value(&mut self, text: &str, seconds: f64) -> Result<(f64, Option<Values>), Failure> {
        let Metric::Matched { regex, decimal } = &self.metric else {
            return Ok((seconds, None));
        };
        let of_metric = |why| Failure::NoFigure(format!("--metric '{regex}' {why}"));
        let numbers = match self.matches {
            Matches::Last => group::find_number(regex, text, *decimal).map(|found| vec![found]),
            Matches::Steady => group::find_numbers(regex, text, *decimal),
        };
        let numbers = numbers.map_err(|error| match error {
            NoNumber::NoMatch => Failure::NoFigure(format!("no output matches --metric '{regex}'")),
            NoNumber::Unreadable { matched, why } => {
                of_metric(format!("matched '{matched}': {why}"))
            }
            why => of_metric(format!("found no figure: {why}")),
        })?;
        for found in &numbers {
            self.written.check(found).map_err(|why| of_metric(format!("found: {why}")))?;
        }
        let values: Vec<f64> = numbers.iter().map(|found| found.reading.value).collect();
        if let [value] = values[..] {
            return Ok((value, None));
        }
        let dropped = steady::warm_up(&values);
        let mean = steady::mean(&values[dropped..]);
        if mean > 0.0 {
            return Ok((mean, Some(Values { found: values.len(), dropped })));
        }
        Err(of_metric(format!(
            "found {} values, and only zeros after the warm-up of {dropped}",
            values.len()
        )))
    }
}

/// Reads the number above 0 in the first group of the last match, with the unit that follows it.
///
/// # Errors
/// [`NoNumber`].
pub fn last_number(regex: &Regex, text: &str, decimal: Option<Decimal>) -> Result<f64, NoNumber> {
    group::find_number(regex, text, decimal).map(|found| found.reading.value)
}

/// The first group of the last match that has one, or the last match as a whole for an expression
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

    impl Judge {
        fn outcome(&mut self, candidate: Candidate, text: &str, seconds: f64, rss: u64) -> Outcome {
            self.judge(candidate, text, seconds, rss).0
        }
    }

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
            other => panic!("no failure but {other:?}"),
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

    /// Progress lines as pgbench prints them, of which the first belongs to the warm-up, and the line
    /// of a moment without progress does not.
    #[test]
    fn of_several_values_of_a_load_the_mean_of_the_steady_ones_counts() {
        let mut steady = judge(r"([\d.]+) tps", None).counting(Matches::Steady);
        let rates = [3.0, 100.0, 101.0, 99.0, 100.0, 98.0, 102.0, 100.0, 99.0, 101.0, 100.0];
        let text: String = rates.iter().map(|rate| format!("progress: {rate} tps\n")).collect();
        let values = Some(Values { found: 11, dropped: 1 });
        assert_eq!(steady.judge(DEFAULT, &text, 1.0, 0), (Outcome::Value(100.0), values));
        // One value counts as it is, and so do all of a few.
        assert_eq!(steady.judge(DEFAULT, "7 tps", 1.0, 0), (Outcome::Value(7.0), None));
        let few = Some(Values { found: 3, dropped: 0 });
        assert_eq!(steady.judge(DEFAULT, "0 tps 4 tps 5 tps", 1.0, 0), (Outcome::Value(3.0), few));
        assert!(failure(steady.outcome(DEFAULT, "0 tps 0 tps", 1.0, 0)).contains("above 0"));
        assert!(failure(steady.outcome(DEFAULT, "0 tps", 1.0, 0)).contains("above 0"));
        assert!(failure(steady.outcome(DEFAULT, "", 1.0, 0)).contains("no output matches"));
        let rest = "9 tps 0 tps 0 tps 0 tps 0 tps 0 tps 0 tps 0 tps 0 tps 0 tps";
        assert!(failure(steady.outcome(DEFAULT, rest, 1.0, 0)).contains("only zeros"));
        // Values of one run can be compared as those of different runs.
        let mut units = judge(r"v ([\d.]+)", None).counting(Matches::Steady);
        assert!(failure(units.outcome(DEFAULT, "v 1 ms, v 2 kB", 1.0, 0)).contains("unit"));
    }

    /// The sum of two of them is infinite.
    #[test]
    fn numbers_that_cannot_be_computed_with_are_no_figures() {
        for matches in [Matches::Last, Matches::Steady] {
            let mut judge = judge("v ([0-9e]+)", None).counting(matches);
            let large = failure(judge.outcome(DEFAULT, "v 1e308\nv 1e308\n", 1.0, 0));
            assert!(large.contains("'1e308' is too large"), "{large}");
            let largest = judge.outcome(DEFAULT, "v 1e100\nv 1e100\n", 1.0, 0);
            assert_eq!(largest, Outcome::Value(1e100));
        }
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
    fn numbers_of_different_units_or_decimal_signs_are_not_compared() {
        let mut units = judge(r"v ([\d.,]+)", None);
        assert_eq!(units.outcome(DEFAULT, "v 500 us", 1.0, 0), Outcome::Value(500e-6));
        assert_eq!(units.outcome(OTHER, "v 1.5 ms", 1.0, 0), Outcome::Value(1.5e-3));
        let plain = failure(units.outcome(OTHER, "v 1.5", 1.0, 0));
        assert!(plain.contains("'1.5' has no unit and '500 us'"), "{plain}");
        let bytes = failure(units.outcome(OTHER, "v 1.5 MB", 1.0, 0));
        assert!(bytes.contains("a unit of bytes"), "{bytes}");

        let mut thousands = judge(r"v ([\d.,]+)", None);
        assert_eq!(thousands.outcome(DEFAULT, "v 1.234.567", 1.0, 0), Outcome::Value(1_234_567.0));
        let why = failure(thousands.outcome(OTHER, "v 1.234", 1.0, 0));
        assert!(why.contains("'1.234.567'") && why.contains("--decimal"), "{why}");
        assert_eq!(thousands.outcome(OTHER, "v 999", 1.0, 0), Outcome::Value(999.0));
        // This also holds after the search has been resumed.
        let mut resumed = judge(r"v ([\d.,]+)", None);
        resumed.restore_written(thousands.written().clone());
        assert!(failure(resumed.outcome(OTHER, "v 1.234", 1.0, 0)).contains("--decimal"));

        let regex = Regex::new(r"v ([\d.,]+)").unwrap();
        let metric = Metric::matched(regex, Some(Decimal::Comma)).unwrap();
        let mut judge = Judge::new(metric, None, Limits::default());
        assert_eq!(judge.outcome(DEFAULT, "v 1.234.567", 1.0, 0), Outcome::Value(1_234_567.0));
        assert_eq!(judge.outcome(OTHER, "v 1.234", 1.0, 0), Outcome::Value(1234.0));
        assert_eq!(judge.outcome(OTHER, "v 1,5", 1.0, 0), Outcome::Value(1.5));
    }

    #[test]
    fn words_that_are_no_units_are_the_same_in_all_runs() {
        for (one, other) in [
            ("950 kops/s", "1.10 Mops/s"),
            ("950 kops/s", "1.10"),
            ("950 kop (kops)", "1.10"),
            ("950 (kops)", "1.10 (Mops)"),
            ("950 [MFLOPS]", "1.10 [GFLOPS]"),
            ("950\u{1b}[0m  Melem/s", "1.10\u{1b}[0m  Gelem/s"),
            ("950 gb/s", "1.10 tb/s"),
            ("950 GiB/s", "1.10 TiB/min"),
            ("950 GBps", "1.10 GB/min"),
        ] {
            let mut judge = judge(r"v ([\d.]+)", None);
            let first = judge.outcome(DEFAULT, &format!("v {one}"), 1.0, 0);
            assert!(matches!(first, Outcome::Value(_)), "{one}: {first:?}");
            let mut resumed = self::judge(r"v ([\d.]+)", None);
            let written = serde_json::to_string(judge.written()).unwrap();
            resumed.restore_written(serde_json::from_str(&written).unwrap());
            for mut judge in [judge, resumed] {
                let why = failure(judge.outcome(OTHER, &format!("v {other}"), 1.0, 0));
                let (number, _) = other.split_once([' ', '\u{1b}']).unwrap_or((other, ""));
                assert!(why.contains("950") && why.contains(number), "{why}");
            }
        }
        for (one, other) in [
            ("1 run", "2 runs"),
            ("950 GB/s", "1.10 TBps"),
            ("950 tps (excluding 3 ms)", "1.10 tps (without 3 ms)"),
            ("950 (including 3 ms)", "1.10 (3 ms)"),
            ("5 s=7", "6 t=7"),
            ("5, or so", "6; fast"),
            ("5", "6 extraordinarily"),
            ("5 7", "6 8"),
            ("950", "1.10M"),
        ] {
            let mut judge = judge(r"v ([\d.]+)", None);
            for text in [one, other] {
                let outcome = judge.outcome(OTHER, &format!("v {text}"), 1.0, 0);
                assert!(matches!(outcome, Outcome::Value(_)), "{one}, {other}: {outcome:?}");
            }
        }
        // The unit is in the group, and the rest of a rate follows it.
        let mut within = judge(r"v ([\d.]+ \w+)", None);
        assert_eq!(within.outcome(DEFAULT, "v 2 GB/s", 1.0, 0), Outcome::Value(2e9));
        assert_eq!(within.outcome(OTHER, "v 2 MB/sec", 1.0, 0), Outcome::Value(2e6));
        assert!(failure(within.outcome(OTHER, "v 2 GB/min", 1.0, 0)).contains("units"));
    }

    #[test]
    fn a_group_that_cuts_a_number_is_named_with_the_remedy() {
        let mut cut = judge(r"v (\d)", None);
        let why = failure(cut.outcome(DEFAULT, "v 100", 1.0, 0));
        assert!(why.contains("'1' is only a part of '100'") && why.contains("([0-9]+)"), "{why}");
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
        // A default that contradicts itself is not a reference for others.
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
