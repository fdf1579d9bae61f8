//! Loads for testing a controller: the number of threads that want to run in each tick.

use std::f64::consts::TAU;

use thiserror::Error;

/// A kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// A constant load.
    Constant,
    /// A low load, then a high one that stays.
    Step,
    /// A high load for some ticks.
    Burst,
    /// A low and a high load in turn.
    Square,
    /// A slow wave.
    Sine,
    /// A database under queries of several clients, recorded.
    Database,
}

/// Ticks of a load that is not recorded.
const TICKS: u32 = 120;
/// Half a period of a periodic load.
const HALF: u32 = 20;
/// Recorded with `numapilot cores --json`: busy and waiting threads for each tick of 100 ms.
const DATABASE: &str = include_str!("../../traces/database.txt");

impl Trace {
    /// The load of each tick for a machine with this many cores. A high load is three quarters of
    /// the cores, a low one an eighth. The recorded load is scaled to peak at all cores.
    ///
    /// # Errors
    /// Fails if the recording cannot be read.
    pub fn demand(self, cores: u32) -> Result<Vec<f64>, TraceError> {
        let all = f64::from(cores);
        let (much, little) = (all * 0.75, all * 0.125);
        let shape = |tick: u32| match self {
            Self::Constant => all * 0.3125,
            Self::Step if tick < HALF => little,
            Self::Step => much,
            Self::Burst if (HALF..HALF + 10).contains(&tick) => all,
            Self::Burst => all * 0.3125,
            Self::Square if (tick / HALF).is_multiple_of(2) => little,
            Self::Square => much,
            Self::Sine => {
                let phase = f64::from(tick) / f64::from(3 * HALF) * TAU;
                f64::midpoint(much, little) - (much - little) / 2.0 * phase.cos()
            }
            Self::Database => 0.0,
        };
        if self != Self::Database {
            return Ok((0..TICKS).map(shape).collect());
        }
        let recorded = read(DATABASE)?;
        let peak = recorded.iter().copied().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
        Ok(recorded.into_iter().map(|demand| demand * all / peak).collect())
    }
}

/// Why a load cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TraceError {
    /// A line is not a number.
    #[error(
        "line {line}: '{text}' is not a number of threads; write one number per line, such as 3.5"
    )]
    Line {
        /// The line number, from 1.
        line: usize,
        /// The text of the line.
        text: String,
    },
    /// The load has no ticks.
    #[error("the file has no ticks; write a number of threads for each tick, one per line")]
    Empty,
}

/// Reads a load from text: one number per line. Text after `#` is a comment.
///
/// # Errors
/// [`TraceError`].
pub fn read(text: &str) -> Result<Vec<f64>, TraceError> {
    let mut demand = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let number = line.split('#').next().unwrap_or_default().trim();
        if number.is_empty() {
            continue;
        }
        match number.parse::<f64>() {
            Ok(threads) if (0.0..=1e6).contains(&threads) => demand.push(threads),
            _ => {
                // Long garbage is not printed whole.
                let text = number.chars().take(40).collect();
                return Err(TraceError::Line { line: at + 1, text });
            }
        }
    }
    if demand.is_empty() { Err(TraceError::Empty) } else { Ok(demand) }
}

#[cfg(test)]
mod tests {
    use numapilot_test_kit::damaged;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn loads_are_read_or_the_line_is_named() {
        assert_eq!(read("# head\n1\n\n2.5 # more\n"), Ok(vec![1.0, 2.5]));
        assert_eq!(read("1\nx\n"), Err(TraceError::Line { line: 2, text: "x".into() }));
        assert!(read("NaN").is_err() && read("-1").is_err() && read("inf").is_err());
        assert_eq!(read("# nothing"), Err(TraceError::Empty));
    }

    #[test]
    fn the_recording_peaks_at_all_cores() {
        let demand = Trace::Database.demand(16).unwrap();
        assert!(demand.len() > 100);
        assert_eq!(demand.iter().copied().fold(0.0, f64::max), 16.0);
    }

    proptest! {
        #[test]
        fn a_damaged_file_is_read_or_refused(text in damaged("# head\n1\n\n2.5 # more\n16\n0.25\n")) {
            if let Ok(loads) = read(&text) {
                prop_assert!(!loads.is_empty());
                prop_assert!(loads.iter().all(|load| load.is_finite() && *load >= 0.0), "{loads:?}");
            }
        }
    }
}
