//! The progress of a run, by the lines that it prints (`--progress`), against that of the best run.
//!
//! A run is hopeless as soon as it has lost so much time on the best run that it would still be
//! slower, by more than noise explains, if the rest ran as fast as in the best run. Nothing is
//! extrapolated from its own pace, so a slow beginning costs no more than the time it took.

use regex::Regex;

use super::judge::last_number;

/// Least loss, as a share of the best run's time, at which a run is hopeless.
const LEAST_LOSS: f64 = 0.10;
/// The same in standard deviations of a run.
const SURE: f64 = 4.0;
/// Least loss in seconds: the kernel may hold up a run by less, and cutting it would save no more.
const LEAST_SECONDS: f64 = 0.1;
/// Most points that are kept of a run.
const POINTS: usize = 4096;

/// The progress of a run: seconds since its start, and a number that grows.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    points: Vec<(f64, f64)>,
}

impl Curve {
    /// Adds the progress in these lines. Returns it if it is more than before.
    fn add(&mut self, regex: &Regex, lines: &str, seconds: f64) -> Option<f64> {
        let value = last_number(regex, lines, None).ok()?;
        if self.points.last().is_some_and(|(_, before)| *before >= value) {
            return None;
        }
        if self.points.len() == POINTS {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 0
            });
        }
        self.points.push((seconds, value));
        Some(value)
    }

    /// Seconds after which this much progress was seen.
    fn reached(&self, value: f64) -> Option<f64> {
        let first = self.points.partition_point(|(_, progress)| *progress < value);
        self.points.get(first).map(|(seconds, _)| *seconds)
    }
}

/// The best run so far.
#[derive(Clone, Debug)]
struct Best {
    curve: Curve,
    seconds: f64,
}

/// Compares runs with the best one.
#[derive(Clone, Debug)]
pub struct Pace {
    regex: Regex,
    best: Option<Best>,
    /// Standard deviation of a run, as a share.
    noise: f64,
}

impl Pace {
    /// Reads progress with this expression.
    pub fn new(regex: Regex) -> Self {
        Self { regex, best: None, noise: 0.0 }
    }

    /// Sets the standard deviation of a run.
    pub fn learn(&mut self, noise: f64) {
        self.noise = noise;
    }

    /// Adds what a run has printed after this time. Returns the least time that the run would take
    /// in all, if that makes it hopeless.
    pub fn hopeless(&self, curve: &mut Curve, lines: &str, seconds: f64) -> Option<f64> {
        let value = curve.add(&self.regex, lines, seconds)?;
        let best = self.best.as_ref()?;
        // At least as much as the best run printed at the end: it is not behind.
        let behind = seconds - best.curve.reached(value)?;
        let loss = LEAST_LOSS.max(SURE * self.noise) * best.seconds;
        (behind > loss.max(LEAST_SECONDS)).then_some(best.seconds + behind)
    }

    /// The expression, if it has matched nothing so far, nor in this output of a whole run.
    pub fn unmatched(&self, text: &str) -> Option<&str> {
        let matches = self.best.is_some() || last_number(&self.regex, text, None).is_ok();
        (!matches).then(|| self.regex.as_str())
    }

    /// Notes a run that was whole.
    pub fn finished(&mut self, curve: Curve, seconds: f64) {
        let is_best = self.best.as_ref().is_none_or(|best| seconds < best.seconds);
        if is_best && !curve.points.is_empty() {
            self.best = Some(Best { curve, seconds });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(noise: f64) -> Pace {
        let mut pace = Pace::new(Regex::new("rows ([0-9]+)").unwrap());
        pace.learn(noise);
        let mut curve = Curve::default();
        for second in 1..=10 {
            let lines = format!("rows {}\n", 100 * second);
            assert_eq!(pace.hopeless(&mut curve, &lines, f64::from(second)), None);
        }
        pace.finished(curve, 10.0);
        pace
    }

    /// Seconds after which a run that takes this many times as long is cut, and its bound.
    fn cut(pace: &Pace, times: f64) -> Option<(f64, f64)> {
        let mut curve = Curve::default();
        (1..=10).find_map(|part| {
            let seconds = times * f64::from(part);
            let bound = pace.hopeless(&mut curve, &format!("rows {}\n", 100 * part), seconds)?;
            Some((seconds, bound))
        })
    }

    #[test]
    fn a_slow_run_is_cut_early_and_its_bound_is_less_than_its_time() {
        assert_eq!(cut(&pace(0.0), 2.0), Some((4.0, 12.0)));
        assert_eq!(cut(&pace(0.0), 1.05), None);
        assert_eq!(cut(&pace(0.0), 0.5), None);
        // With noise, it takes longer to be sure.
        assert_eq!(cut(&pace(0.1), 2.0), Some((10.0, 15.0)));
        assert_eq!(cut(&pace(0.1), 1.3), None);
    }

    #[test]
    fn progress_that_does_not_grow_and_other_lines_are_ignored() {
        let pace = pace(0.0);
        let mut curve = Curve::default();
        assert_eq!(pace.hopeless(&mut curve, "rows 900\n", 1.0), None);
        assert_eq!(pace.hopeless(&mut curve, "rows 100\n", 9.0), None);
        assert_eq!(pace.hopeless(&mut curve, "nothing\n", 9.0), None);
        // More than the best run printed.
        assert_eq!(pace.hopeless(&mut curve, "rows 2000\n", 90.0), None);
        // Without a best run nothing is hopeless.
        let first = Pace::new(Regex::new("rows ([0-9]+)").unwrap());
        assert_eq!(first.hopeless(&mut Curve::default(), "rows 1\n", 90.0), None);
    }

    #[test]
    fn an_expression_that_matches_nothing_is_known_after_a_whole_run() {
        let new = Pace::new(Regex::new("rows ([0-9]+)").unwrap());
        assert_eq!(new.unmatched("row 1\n"), Some("rows ([0-9]+)"));
        assert_eq!(new.unmatched("rows 1\n"), None);
        assert_eq!(pace(0.0).unmatched("row 1\n"), None);
    }

    #[test]
    fn a_long_run_keeps_a_bounded_number_of_points() {
        let regex = Regex::new("rows ([0-9]+)").unwrap();
        let mut curve = Curve::default();
        for row in 1..20_000 {
            curve.add(&regex, &format!("rows {row}\n"), f64::from(row));
        }
        assert!(curve.points.len() <= POINTS);
        assert_eq!(curve.points.last(), Some(&(19_999.0, 19_999.0)));
    }
}
