//! How far the figures of a study are off: the distribution of their errors.

use serde::Serialize;

/// The distribution of absolute relative errors (0.1 is 10 %) of some figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Errors {
    /// The claim whose figures these are; all figures if there is none.
    pub claim: Option<String>,
    /// The number of figures that have a value.
    pub figures: usize,
    /// A quarter of the errors are at most this large.
    pub lower_quartile: f64,
    /// Half of the errors are at most this large.
    pub median: f64,
    /// Three quarters of the errors are at most this large.
    pub upper_quartile: f64,
    /// The largest error.
    pub worst: f64,
    /// The number of figures within 10 %.
    pub within_10: usize,
    /// The number of figures within 25 %.
    pub within_25: usize,
    /// The number of figures within 50 %.
    pub within_50: usize,
    /// All errors, in ascending order.
    #[serde(skip)]
    pub sorted: Vec<f64>,
}

impl Errors {
    /// The distribution for each claim, in the order of the figures, and that of all figures. A
    /// figure is its claim and its relative error, if it has a value. Claims without a value are
    /// left out.
    pub(super) fn by_claim(figures: &[(&str, Option<f64>)]) -> Vec<Self> {
        let mut claims: Vec<&str> = Vec::new();
        for (claim, _) in figures {
            if !claims.contains(claim) {
                claims.push(claim);
            }
        }
        let errors = |claim: Option<&str>| {
            let chosen = figures.iter().filter(|(of, _)| claim.is_none_or(|claim| *of == claim));
            Self::new(claim, chosen.filter_map(|(_, error)| error.map(f64::abs)).collect())
        };
        claims.into_iter().map(Some).chain([None]).filter_map(errors).collect()
    }

    fn new(claim: Option<&str>, mut sorted: Vec<f64>) -> Option<Self> {
        sorted.sort_by(f64::total_cmp);
        let within = |limit: f64| sorted.iter().filter(|error| **error <= limit).count();
        Some(Self {
            claim: claim.map(str::to_owned),
            figures: sorted.len(),
            lower_quartile: quantile(&sorted, 0.25)?,
            median: quantile(&sorted, 0.5)?,
            upper_quartile: quantile(&sorted, 0.75)?,
            worst: *sorted.last()?,
            within_10: within(0.10),
            within_25: within(0.25),
            within_50: within(0.50),
            sorted,
        })
    }
}

/// A quantile of sorted values, on the straight line between the two beside it.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share * sorted.len().checked_sub(1)? as f64;
    let below = at.floor();
    let low = *sorted.get(below as usize)?;
    let high = sorted.get(below as usize + 1).copied().unwrap_or(low);
    Some(low + (at - below) * (high - low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_and_counts_are_of_absolute_errors() {
        let mut figures: Vec<(&str, Option<f64>)> =
            [0.09, -0.2, 0.5, -0.05, 1.4].into_iter().map(|error| ("a", Some(error))).collect();
        figures.push(("a", None));
        figures.push(("b", Some(0.0)));
        let errors = Errors::by_claim(&figures);
        // 0.05, 0.09, 0.2, 0.5 and 1.4
        let [a, b, all] = &errors[..] else { panic!("{errors:?}") };
        let close = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-12, "{a:?}");
        assert_eq!((a.claim.as_deref(), a.figures), (Some("a"), 5));
        close(a.lower_quartile, 0.09);
        close(a.median, 0.2);
        close(a.upper_quartile, 0.5);
        close(a.worst, 1.4);
        assert_eq!((a.within_10, a.within_25, a.within_50), (2, 3, 4));
        assert_eq!((b.figures, b.median, b.worst), (1, 0.0, 0.0));
        assert_eq!((all.claim.as_deref(), all.figures), (None, 6));
        // Between 0.09 and 0.2.
        assert!((all.median - 0.145).abs() < 1e-12, "{all:?}");
    }

    #[test]
    fn no_values_have_no_distribution() {
        assert_eq!(Errors::by_claim(&[("a", None)]), []);
    }
}
