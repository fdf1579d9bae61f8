//! Rows as text, and the rule by which two of them are the same answer.
//!
//! Engines print numbers differently: PostgreSQL's avg() of decimals is a decimal with sixteen
//! places, and DuckDB's is a double. Two numbers agree when they differ by at most one part in
//! 10^9. The reference answers are rounded to two places, and their sums were computed in floating
//! point. Numbers may differ from them by half a unit of the last place and one part in 10^6 (Q17's
//! differs by one in 10^7). DataFusion cuts quotients of decimals off after six places, also before
//! it adds them up. Its numbers may differ by two units of the sixth place and two parts in 10^5.
//! MonetDB rounds means and quotients of decimals to the places of their type, likewise, so its
//! numbers may differ by two units of their last place.
//! TPC-H 2.1.3.5 allows far more: 100 for sums, and one part in 100 for means.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Largest relative difference of two numbers that agree.
const RELATIVE: f64 = 1e-9;
/// The same for a reference answer.
const RELATIVE_TO_REFERENCE: f64 = 1e-6;
/// The same where quotients were cut off, and the absolute difference for that.
const RELATIVE_OF_CUT_OFF: f64 = 2e-5;
const CUT_OFF: f64 = 2e-6;

/// The rows of a query; `None` is NULL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The cells, row by row.
    pub rows: Vec<Vec<Option<String>>>,
}

/// A number that identifies an answer in all engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest(pub u64);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Answer {
    /// Why this differs from `expected`; `None` when it is the same answer. Rows in a different
    /// order are compared after sorting, because ORDER BY leaves the order of ties open.
    #[must_use]
    pub fn differs_from(&self, expected: &Self, rounding: Rounding) -> Option<String> {
        if self == expected {
            return None;
        }
        let (ours, theirs) = (self.rows.len(), expected.rows.len());
        if ours != theirs {
            return Some(format!("{ours} rows instead of {theirs}"));
        }
        let in_order = first_difference(&self.rows, &expected.rows, rounding);
        in_order.and_then(|_| first_difference(&self.sorted(), &expected.sorted(), rounding))
    }

    /// The answer without these columns, counted from 0.
    #[must_use]
    pub fn without(&self, columns: &[usize]) -> Self {
        let rest = |row: &Vec<Option<String>>| {
            let cells = row.iter().enumerate().filter(|(at, _)| !columns.contains(at));
            cells.map(|(_, cell)| cell.clone()).collect()
        };
        Self { rows: self.rows.iter().map(rest).collect() }
    }

    fn sorted(&self) -> Vec<Vec<Option<String>>> {
        let mut rows = self.rows.clone();
        rows.sort_by(|a, b| {
            let cells = a.iter().zip(b).map(|(a, b)| order(a.as_deref(), b.as_deref()));
            cells.into_iter().find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
        });
        rows
    }

    /// A digest that is the same for all answers that agree, whatever the engine, unless one cuts
    /// numbers off. Numbers count with seven digits, and rows in any order.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let rows = self.rows.iter().map(|row| {
            row.iter().fold(FNV_OFFSET, |hash, cell| {
                let text = match cell.as_deref().map(|text| (text, number(text))) {
                    None => "\u{0}".to_owned(),
                    Some((_, Some(number))) => format!("{:.6e}", number + 0.0),
                    Some((text, None)) => text.trim().to_owned(),
                };
                fnv(hash, text.bytes().chain([0x1f]))
            })
        });
        Digest(rows.fold(FNV_OFFSET, u64::wrapping_add))
    }
}

/// FNV-1a, 64 bits.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv(hash: u64, bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// How numbers were computed and printed, in order of decreasing precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Rounding {
    /// With all their digits.
    #[default]
    None,
    /// Quotients were cut off after six places.
    CutOff,
    /// Quotients and means were rounded to the places of their type, which are all printed.
    Places,
    /// Rounded to the places that are printed, from sums in floating point.
    Printed,
}

type Rows = [Vec<Option<String>>];

fn first_difference(ours: &Rows, theirs: &Rows, rounding: Rounding) -> Option<String> {
    ours.iter().zip(theirs).enumerate().find_map(|(at, (ours, theirs))| {
        let row = at + 1;
        if ours.len() != theirs.len() {
            let (ours, theirs) = (ours.len(), theirs.len());
            return Some(format!("row {row} has {ours} columns instead of {theirs}"));
        }
        let mut cells = ours.iter().zip(theirs).enumerate();
        cells.find_map(|(column, (ours, theirs))| {
            let same = agree(ours.as_deref(), theirs.as_deref(), rounding);
            (!same).then(|| {
                let show = |cell: &Option<String>| cell.clone().unwrap_or_else(|| "NULL".into());
                let (ours, theirs) = (show(ours), show(theirs));
                format!("row {row}, column {}: {ours} instead of {theirs}", column + 1)
            })
        })
    })
}

fn agree(ours: Option<&str>, theirs: Option<&str>, rounding: Rounding) -> bool {
    let (Some(ours), Some(theirs)) = (ours, theirs) else { return ours == theirs };
    let (ours, theirs) = (ours.trim(), theirs.trim());
    if ours == theirs {
        return true;
    }
    let (Some(a), Some(b)) = (number(ours), number(theirs)) else { return false };
    let (absolute, relative) = match rounding {
        Rounding::None => (0.0, RELATIVE),
        Rounding::CutOff => (CUT_OFF, RELATIVE_OF_CUT_OFF),
        // Rounded numbers may have been added up.
        Rounding::Places => (two_units(ours, theirs), RELATIVE),
        // Slightly more than half, because 0.5 itself may be rounded either way.
        Rounding::Printed => (0.501 * 10_f64.powi(-places(theirs)), RELATIVE_TO_REFERENCE),
    };
    (a - b).abs() <= absolute + relative * a.abs().max(b.abs())
}

/// Two units of the last place of that number which has fewer places, and some. Zero for integers,
/// which nobody rounds.
fn two_units(ours: &str, theirs: &str) -> f64 {
    match places(ours).min(places(theirs)) {
        0 => 0.0,
        places => 2.001 * 10_f64.powi(-places),
    }
}

/// Decimal places of a printed number.
fn places(text: &str) -> i32 {
    let places = text.split_once('.').map_or(0, |(_, after)| after.len());
    i32::try_from(places).unwrap_or(i32::MAX)
}

/// Words such as `inf` are not numbers here, and neither are phone numbers or dates.
fn number(text: &str) -> Option<f64> {
    let digits = text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
    digits.then(|| text.trim().parse().ok()).flatten()
}

/// Numbers sort before texts; otherwise the order of cells of both kinds would not be transitive.
fn order(a: Option<&str>, b: Option<&str>) -> Ordering {
    match (a.and_then(number), b.and_then(number)) {
        // Coarse, so that the same number from two engines has the same place in the order.
        (Some(a), Some(b)) => coarse(a).total_cmp(&coarse(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.map(str::trim).cmp(&b.map(str::trim)),
    }
}

/// A number with seven digits. Minus zero becomes zero.
fn coarse(number: f64) -> f64 {
    format!("{number:.6e}").parse().unwrap_or(number) + 0.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answer(rows: &[&[&str]]) -> Answer {
        let cell = |text: &&str| (*text != "NULL").then(|| (*text).to_owned());
        Answer { rows: rows.iter().map(|row| row.iter().map(cell).collect()).collect() }
    }

    fn differs(a: &[&[&str]], b: &[&[&str]], rounding: Rounding) -> Option<String> {
        answer(a).differs_from(&answer(b), rounding)
    }

    #[test]
    fn formats_differ_and_values_do_not() {
        let ours: &[&[&str]] = &[&["A ", "25.5220058532573370", "NULL", "1995-01-01"]];
        let theirs: &[&[&str]] = &[&["A", "25.522005853257337", "NULL", "1995-01-01"]];
        assert_eq!(differs(ours, theirs, Rounding::None), None);
        assert_eq!(answer(ours).digest(), answer(theirs).digest());
    }

    #[test]
    fn a_wrong_answer_is_distinguished() {
        let difference = |a, b, r| differs(&[&[a]], &[&[b]], r).unwrap();
        assert_eq!(
            difference("1.00001", "1.0", Rounding::None),
            "row 1, column 1: 1.00001 instead of 1.0"
        );
        assert!(difference("NULL", "0", Rounding::None).contains("NULL instead of 0"));
        assert!(difference("25.53", "25.52", Rounding::Printed).contains("25.53"));
        assert!(difference("1995-01-01", "1995-01-02", Rounding::Printed).contains("1995-01-02"));
        assert!(difference("x", "y", Rounding::Printed).contains('x'));
        assert_eq!(differs(&[&["33.306666"]], &[&["33.306666666666665"]], Rounding::CutOff), None);
        assert!(
            difference("33.306666", "33.306666666666665", Rounding::None).contains("33.306666")
        );
        assert!(difference("33.31", "33.30", Rounding::CutOff).contains("33.31"));
        assert_eq!(differs(&[&["25.52"]], &[&["25.522005853257337"]], Rounding::Places), None);
        assert!(difference("25.55", "25.522005853257337", Rounding::Places).contains("25.55"));
        assert!(difference("25", "26", Rounding::Places).contains("25"));
        assert_eq!(differs(&[&["25.5248"]], &[&["25.52"]], Rounding::Printed), None);
        assert_eq!(differs(&[&["348406.0543"]], &[&["348406.02"]], Rounding::Printed), None);
        assert!(difference("348406.5", "348406.02", Rounding::Printed).contains("348406.5"));
        assert!(differs(&[], &[&["1"]], Rounding::None).unwrap().contains("0 rows instead of 1"));
        assert!(differs(&[&["1", "2"]], &[&["1"]], Rounding::None).unwrap().contains("2 columns"));
    }

    #[test]
    fn ties_may_come_in_any_order() {
        let ours: &[&[&str]] = &[&["2", "b"], &["2", "a"], &["1", "c"]];
        let theirs: &[&[&str]] = &[&["2.0", "a"], &["2.0", "b"], &["1.0", "c"]];
        assert_eq!(differs(ours, theirs, Rounding::None), None);
        assert_eq!(answer(ours).digest(), answer(theirs).digest());
        assert_ne!(answer(ours).digest(), answer(&theirs[..2]).digest());
    }

    proptest! {
        #[test]
        fn every_answer_agrees_with_itself_shuffled(
            rows in prop::collection::vec(prop::collection::vec("[-0-9.a-z]{0,4}", 2), 0..6),
            by in 0usize..6,
        ) {
            let rows: Vec<Vec<Option<String>>> =
                rows.into_iter().map(|row| row.into_iter().map(Some).collect()).collect();
            let answer = Answer { rows };
            let mut other = answer.clone();
            if !other.rows.is_empty() {
                let by = by % other.rows.len();
                other.rows.rotate_left(by);
            }
            prop_assert_eq!(other.differs_from(&answer, Rounding::None), None);
            prop_assert_eq!(other.digest(), answer.digest());
        }
    }
}
