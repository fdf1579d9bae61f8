//! Draws the paper's value next to ours: the band as an area, the paper's value as a vertical line,
//! and ours as a dot with its interval.
//!
//! ```text
//!     [#####|####]
//!        --o---
//! ```

use numapilot_cli_kit::svg::{Area, Svg};
use numapilot_study::experiment::{ClaimResult, PaperValue};

const WIDTH: f64 = 180.0;
const HEIGHT: f64 = 26.0;
const EDGE: f64 = 6.0;
/// A band whose limit exceeds all other values by this factor is drawn as unbounded.
const FAR: f64 = 10.0;
const MIDDLE: f64 = HEIGHT / 2.0;

/// Draws the picture, or returns `None` if there is nothing to compare with.
pub fn draw(result: &ClaimResult) -> Option<String> {
    let claim = &result.claim;
    let [(_, ours)] = result.values.as_slice() else { return None };
    let paper = match &claim.paper {
        Some(PaperValue::Number(number)) => Some(*number),
        _ => None,
    };
    let limit = claim.above.or(claim.below);
    let interval = ours.interval.unwrap_or([ours.value; 2]);
    let others = || interval.into_iter().chain(paper).chain(limit);
    let most = others().fold(0.0, f64::max);
    let band = claim.band.map(|[from, to]| [from, if to > FAR * most { 2.0 * most } else { to }]);
    let all = || others().chain(band.into_iter().flatten());
    let (low, high) =
        all().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    if all().count() == 2 || high <= low {
        return None;
    }
    // A margin keeps marks at the ends from being cut off.
    let air = 0.08 * (high - low);
    let (low, high) = (low - air, high + air);
    let x = |value: f64| EDGE + (WIDTH - 2.0 * EDGE) * (value - low) / (high - low);
    let mut svg = Svg::default();
    if let Some([from, to]) = band {
        let area = Area { x: x(from), y: 4.0, width: x(to) - x(from), height: HEIGHT - 8.0 };
        svg.rectangle("box", area, 2.0);
    }
    svg.line("grid", (EDGE, MIDDLE), (WIDTH - EDGE, MIDDLE));
    if let Some(limit) = limit {
        svg.line("grid", (x(limit), 2.0), (x(limit), HEIGHT - 2.0));
    }
    if let Some(paper) = paper {
        svg.line("axis", (x(paper), 2.0), (x(paper), HEIGHT - 2.0));
    }
    let [from, to] = interval.map(x);
    svg.path(0, 2.5, &format!("M{from:.1} {MIDDLE}H{to:.1}"));
    svg.dot(0, x(ours.value), MIDDLE, 4.0);
    Some(svg.inline(WIDTH, HEIGHT, "band, paper and ours"))
}
