//! The specification's answers for scale factor 1.

use tpchgen::q_and_a::QueryAndAnswer;

use crate::{Answer, Reference, Scale};

/// The source of the answers cuts Q11's part keys off after four characters.
const CUT_OFF: (u32, &[usize]) = (11, &[0]);

/// The reference answer; there are some for scale factor 1 only.
pub fn reference(number: u32, scale: Scale) -> Option<Reference> {
    let found = QueryAndAnswer::new(i32::try_from(number).ok()?, scale.factor()).ok()?;
    let left_out = if number == CUT_OFF.0 { CUT_OFF.1 } else { &[] };
    Some(Reference { answer: parse(found.answer()).without(left_out), left_out })
}

/// Parses lines of fields between bars, padded with blanks. The first line names the columns.
fn parse(text: &str) -> Answer {
    let lines = text.lines().filter(|line| !line.trim().is_empty()).skip(1);
    let cell = |text: &str| match text.trim() {
        "NULL" => None,
        text => Some(text.to_owned()),
    };
    Answer { rows: lines.map(|line| line.split('|').map(cell).collect()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_there_at_scale_factor_1_only() {
        let one: Scale = "1".parse().unwrap();
        let answer = reference(1, one).unwrap().answer;
        assert_eq!(answer.rows.len(), 4);
        assert_eq!(answer.rows[0][2].as_deref(), Some("37734107.00"));
        for number in 1..=22 {
            assert!(!reference(number, one).unwrap().answer.rows.is_empty());
        }
        let values = reference(11, one).unwrap().answer.rows;
        assert_eq!((values.len(), values[0].len()), (1048, 1));
        assert_eq!(values[0][0].as_deref(), Some("17538456.86"));
        assert!(reference(1, "0.1".parse().unwrap()).is_none());
        assert!(reference(23, one).is_none());
    }
}
