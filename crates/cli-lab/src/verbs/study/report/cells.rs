//! What the score and the sections of the page have in common: names, verdicts, our values.

use numapilot_cli_kit::svg::escape;
use numapilot_study::experiment::ClaimResult;
use numapilot_study::verdict::Verdict;

use super::Section;
use crate::verbs::study::short;

/// Our value, or several in their order.
pub fn here(result: &ClaimResult) -> String {
    match result.values.as_slice() {
        [(_, one)] => short(one.value),
        several => {
            let names =
                several.iter().map(|(name, e)| format!("{} {}", escape(name), short(e.value)));
            names.collect::<Vec<_>>().join(" &gt; ")
        }
    }
}

/// A verdict in its colour.
pub fn badge(verdict: Verdict) -> String {
    format!("<span class=\"verdict {}\">{verdict}</span>", class(verdict))
}

/// The class of a verdict in the style sheet.
pub fn class(verdict: Verdict) -> String {
    verdict.to_string().replace(' ', "-")
}

/// The name of the section of an experiment.
pub fn anchor(section: &Section) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    format!("{}-{}", section.experiment.id.chars().map(safe).collect::<String>(), section.scale)
}
