//! Says what was expected before the first run, and how far it has held.

use numapilot_cli_kit::terminal::printable;
use numapilot_tune::report::{PriorFigures, Report};

/// Most earlier searches that are named; all are in `--json`.
const NAMES: usize = 3;

/// Lines about the prior; none without one.
pub fn lines(report: &Report) -> Vec<String> {
    let Some(prior) = &report.prior else { return Vec::new() };
    let PriorFigures { advice, searches } = prior;
    let advice = advice.map(|right| {
        let percent = 100.0 * right;
        format!("expected by one observed run: {percent:.0} % of it holds, by the model")
    });
    let mut sorted: Vec<_> = searches.iter().collect();
    sorted.sort_by(|a, b| b.weight.abs().total_cmp(&a.weight.abs()));
    let named = sorted.iter().take(NAMES).map(|earlier| {
        format!("expected by {}: weight {:.2}", printable(&earlier.search), earlier.weight)
    });
    let more = searches.len().saturating_sub(NAMES);
    let more = (more > 0).then(|| {
        let noun = if more == 1 { "search" } else { "searches" };
        format!("expected by {more} more earlier {noun}, with less weight")
    });
    advice.into_iter().chain(named).chain(more).collect()
}

#[cfg(test)]
mod tests {
    use numapilot_tune::report::EarlierFigures;

    use super::super::text::example::screened;
    use super::*;

    #[test]
    fn the_searches_with_most_weight_are_named() {
        assert_eq!(lines(&screened()), Vec::<String>::new());
        let searches = [0.1, 0.9, -0.4, 0.0]
            .map(|weight| EarlierFigures { search: format!("search {weight}"), weight });
        let prior = PriorFigures { advice: Some(0.75), searches: searches.to_vec() };
        assert_eq!(
            lines(&Report { prior: Some(prior), ..screened() }),
            [
                "expected by one observed run: 75 % of it holds, by the model",
                "expected by search 0.9: weight 0.90",
                "expected by search -0.4: weight -0.40",
                "expected by search 0.1: weight 0.10",
                "expected by 1 more earlier search, with less weight",
            ]
        );
    }
}
