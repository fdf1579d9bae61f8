//! Draws the plans: a dot for each ratio, a line for its interval, and the default as a vertical
//! line.
//!
//! ```text
//!  jemalloc, thp always   --o--    |
//!  default                         |
//!  mimalloc                     ---o---
//!                       0.8   0.9  1.0   1.1
//! ```

use numapilot_cli_kit::axis::{RatioAxis, extremes};
use numapilot_cli_kit::svg::{Svg, text_width};
use numapilot_tune::evidence::Goal;
use numapilot_tune::report::{PlanFigures, Report, Status};

use super::setup::is_time;
use super::text;

/// The maximum number of plans; the picture says how many are left out.
const MOST: usize = 40;
const ROW: f64 = 24.0;
const TOP: f64 = 78.0;
const MARGIN: f64 = 20.0;
const PLOT: f64 = 460.0;
/// Space for the figures to the right of the plot.
const FIGURES: f64 = 230.0;
const RADIUS: f64 = 4.5;
/// Half the height of the arrow at the end of an interval that continues beyond the axis.
const ARROW: f64 = 3.0;

/// Draws a report that has at least one ratio.
pub fn draw(report: &Report) -> String {
    let measured: Vec<&PlanFigures> = report.plans.iter().filter(|p| p.ratio.is_some()).collect();
    let drawn = &measured[..measured.len().min(MOST)];
    let labels = drawn.iter().map(|p| text_width(&p.plan, 13.0)).fold(120.0, f64::max);
    let axis = axis(drawn, MARGIN + labels + 16.0);
    let bottom = TOP + ROW * drawn.len() as f64;
    let width = axis.left + PLOT + FIGURES;

    let mut svg = Svg::default();
    svg.text("strong large", MARGIN, 30.0, "Plans against the default");
    let better = match report.goal {
        Goal::Minimize => "left is better",
        Goal::Maximize => "right is better",
    };
    let subtitle = format!(
        "{}, as a ratio to the default's, with its {:.0} % interval; {better}",
        if is_time(&report.metric) { text::metric(report) } else { "The metric (--metric)".into() },
        100.0 * report.confidence
    );
    svg.text("dim", MARGIN, 52.0, &subtitle);
    for tick in axis.ticks() {
        let x = axis.x(tick);
        svg.line("grid", (x, TOP - 8.0), (x, bottom));
        svg.text("dim small middle", x, bottom + 16.0, &axis.label(tick));
    }
    svg.line("axis", (axis.x(1.0), TOP - 8.0), (axis.x(1.0), bottom));
    for (row, plan) in drawn.iter().enumerate() {
        draw_plan(&mut svg, &axis, plan, TOP + ROW * (row as f64 + 0.5));
    }
    let mut foot = bottom + 40.0;
    legend(&mut svg, drawn, foot);
    foot += 20.0;
    let on_axis =
        |p: &PlanFigures| p.confidence.is_none_or(|c| c.iter().all(|&v| axis.contains(v)));
    if !drawn.iter().all(|plan| on_axis(plan)) {
        svg.text("dim small", MARGIN, foot, "arrow: the interval goes on beyond the picture");
        foot += 20.0;
    }
    if drawn.iter().any(|plan| text::is_marked(plan)) {
        svg.text("dim small", MARGIN, foot, text::ESTIMATED);
        foot += 20.0;
    }
    let missing = report.plans.len() - drawn.len();
    if missing > 0 {
        let text =
            format!("{missing} more plans are not drawn: failed, or beyond the first {MOST}");
        svg.text("dim small", MARGIN, foot, &text);
        foot += 20.0;
    }
    svg.finish(
        width.max(MARGIN * 2.0 + text_width(&subtitle, 13.0)),
        foot,
        "Plans against the default",
    )
}

/// Explains the colours that occur.
fn legend(svg: &mut Svg, plans: &[&PlanFigures], y: f64) {
    let mut x = MARGIN;
    for (color, statuses, text) in [
        (1, &[Status::Best][..], "best: shown to beat the default"),
        (
            0,
            &[Status::Default, Status::Expected, Status::Tied][..],
            "default, or tied with it or the best",
        ),
        (2, &[Status::Dropped][..], "dropped: shown to be worse than another"),
        (3, &[Status::Screened][..], "screened: estimated by the model, not raced"),
    ] {
        if plans.iter().any(|plan| statuses.contains(&plan.status)) {
            svg.dot(color, x + RADIUS, y - 4.0, RADIUS);
            svg.text("dim small", x + 14.0, y, text);
            x += 14.0 + text_width(text, 11.0) + 10.0;
        }
    }
}

fn draw_plan(svg: &mut Svg, axis: &RatioAxis, plan: &PlanFigures, y: f64) {
    let Some(ratio) = plan.ratio else { return };
    let kind = match plan.status {
        Status::Best => 1,
        Status::Dropped | Status::Failed => 2,
        Status::Screened => 3,
        Status::Default | Status::Expected | Status::Tied => 0,
    };
    let class = if plan.status == Status::Best { "strong end" } else { "text end" };
    svg.text(class, axis.left - 16.0, y + 4.5, &plan.plan);
    if plan.status == Status::Default {
        svg.text("dim small", axis.left + PLOT + 14.0, y + 4.0, "default");
        svg.dot(kind, axis.x(1.0), y, RADIUS);
        return;
    }
    let mut figures = format!("{ratio:.3}");
    if plan.confidence.is_none() {
        figures += " (interval not known)";
    }
    if let Some([low, high]) = plan.confidence {
        let (from, to) = (axis.x(low), axis.x(high));
        svg.path(kind, 2.0, &format!("M{from:.1} {y:.1}H{to:.1}"));
        for (end, value, outward) in [(from, low, -1.0), (to, high, 1.0)] {
            svg.path(kind, 2.0, &cap(end, y, outward, axis.contains(value)));
        }
        figures = format!("{figures} ({low:.3} to {high:.3}){}", text::mark(plan));
    }
    svg.dot(kind, axis.x(ratio), y, RADIUS);
    let figures = format!("{figures} {}", plan.status.name());
    svg.text("dim small", axis.left + PLOT + 14.0, y + 4.0, &figures);
}

/// Draws the end of an interval: a bar, or an arrow if it lies beyond the axis.
fn cap(x: f64, y: f64, outward: f64, on_axis: bool) -> String {
    if on_axis {
        return format!("M{x:.1} {:.1}v8", y - 4.0);
    }
    let (tip, back) = (x + outward * ARROW, x - outward * ARROW);
    format!("M{back:.1} {:.1}L{tip:.1} {y:.1}L{back:.1} {:.1}", y - 5.0, y + 5.0)
}

/// An axis that covers every ratio, and whole intervals if that does not crowd the dots.
fn axis(plans: &[&PlanFigures], left: f64) -> RatioAxis {
    let ratios: Vec<f64> = plans.iter().filter_map(|p| p.ratio).chain([1.0]).collect();
    let (least, most) = extremes(&ratios);
    let reach = (most / least).ln().max(0.05);
    let ends: Vec<f64> = plans.iter().filter_map(|p| p.confidence).flatten().collect();
    let (low_end, high_end) = extremes(&[ends, ratios].concat());
    let low = low_end.max(least * (-reach).exp());
    RatioAxis::new(left, PLOT, low, high_end.min(most * reach.exp()))
}
