//! Failed queries as text.

use numapilot_engines::power::{Failure, Outcome};

/// Describes a failure.
pub fn message(failure: &Failure) -> String {
    match failure {
        Failure::Refused(cause) => format!("failed: {cause}"),
        Failure::Wrong(difference) => format!("gave a wrong answer: {difference}"),
    }
}

/// Describes which query failed, and how.
pub fn failed(number: u32, failure: &Failure) -> String {
    format!("query {number} {}", message(failure))
}

/// Describes a query's failure, if it has one.
pub fn failure(outcome: &Outcome) -> Option<String> {
    Some(failed(outcome.number, outcome.failure.as_ref()?))
}

/// Each distinct failure once, with the number of its occurrences.
pub fn failures(all: &[(u32, Failure)]) -> Vec<String> {
    let mut counted: Vec<(String, usize)> = Vec::new();
    for (number, failure) in all {
        let text = failed(*number, failure);
        match counted.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => counted.push((text, 1)),
        }
    }
    let text = |(text, count)| if count == 1 { text } else { format!("{text} ({count} times)") };
    counted.into_iter().map(text).collect()
}
