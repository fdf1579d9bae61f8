//! Draws the results: for each kernel a bar for its pathology and one for every mitigation. The
//! length is the time relative to the pathology, and a mark shows the prediction. The best
//! placement has its own colour. A bar that is longer than the plot is cut, with a gap near its
//! end.
//!
//! ```text
//!  k4-gups  first-touch  ██████████████|  1.00
//!           interleave   ████|            0.32
//! ```

use numapilot_cli_kit::svg::{Area, Svg, text_width};
use numapilot_cli_kit::terminal;

use super::text::{Row, pathology, subtitle};

const MARGIN: f64 = 20.0;
const TOP: f64 = 92.0;
const BAR: f64 = 15.0;
const GAP: f64 = 10.0;
const PLOT: f64 = 360.0;
/// The ratio at which bars are cut.
const LONGEST: f64 = 1.6;
const TITLE: &str = "NUMA pathology kernels: pathologies and mitigations";

/// Draws the picture.
pub fn draw(rows: &[Row]) -> String {
    let mut svg = Svg::default();
    svg.text("strong large", MARGIN, 30.0, TITLE);
    let about = format!("{}; time relative to the pathology, less is better", subtitle(rows));
    svg.text("dim", MARGIN, 52.0, &about);
    let drawn: Vec<&Row> = rows.iter().filter(|row| !row.repeats_one_of(rows)).collect();
    let names = widest(drawn.iter().map(|row| row.workload.as_str()), 13.0);
    let places: Vec<String> = drawn.iter().map(|row| row.place()).collect();
    let places = widest(places.iter().map(String::as_str), 11.0);
    let left = MARGIN + names + 14.0 + places + 12.0;
    let x = |ratio: f64| left + PLOT * ratio.min(LONGEST) / LONGEST;
    legend(&mut svg, left);
    let mut y = TOP;
    let mut last = "";
    let mut marks = Vec::new();
    for row in drawn {
        if row.workload != last {
            y += if last.is_empty() { 0.0 } else { GAP };
            svg.text("strong", MARGIN, y + 11.5, &row.workload);
        }
        last = &row.workload;
        svg.text("text small end", left - 12.0, y + 11.0, &row.place());
        if let Some(first) = pathology(rows, row).filter(|first| first.seconds > 0.0) {
            let ratio = row.seconds / first.seconds;
            let width = x(ratio) - left;
            svg.rectangle(
                class(row, rows),
                Area { x: left, y: y + 1.5, width, height: BAR - 4.0 },
                2.0,
            );
            if ratio > LONGEST {
                let cut = Area { x: left + width - 16.0, y, width: 4.0, height: BAR - 1.0 };
                svg.rectangle("ground", cut, 0.0);
            }
            let label = format!("{ratio:.2}  {}", terminal::seconds(row.seconds));
            svg.text("dim small", x(LONGEST) + 10.0, y + 11.0, &label);
            // A prediction beyond the plot is not drawn.
            let predicted = row.predicted_seconds.map(|p| p / first.seconds);
            marks.extend(predicted.filter(|p| *p <= LONGEST).map(|p| (x(p), y)));
        }
        y += BAR;
    }
    for (x, y) in marks {
        svg.line("axis", (x, y - 0.5), (x, y + BAR - 1.5));
    }
    for tick in [0.5, 1.0, 1.5] {
        svg.line("grid", (x(tick), TOP), (x(tick), y + 4.0));
        svg.text("dim small middle", x(tick), y + 18.0, &format!("{tick:.1}"));
    }
    let width = x(LONGEST) + 10.0 + text_width("0.00  00.0 ms", 11.0) + MARGIN;
    svg.finish(width, y + 34.0, TITLE)
}

fn legend(svg: &mut Svg, left: f64) {
    let y = 74.0;
    let mut at = left;
    for (class, text) in
        [("dot2", "pathology"), ("dot0", "another placement"), ("dot1", "best placement")]
    {
        svg.rectangle(class, Area { x: at, y: y - 9.0, width: 12.0, height: 10.0 }, 2.0);
        svg.text("dim small", at + 18.0, y, text);
        at += 34.0 + text_width(text, 11.0);
    }
    svg.line("axis", (at + 6.0, y - 10.0), (at + 6.0, y + 2.0));
    svg.text("dim small", at + 14.0, y, "predicted");
}

fn class(row: &Row, rows: &[Row]) -> &'static str {
    if row.is_pathology() {
        "dot2"
    } else if row.is_best(rows) {
        "dot1"
    } else {
        "dot0"
    }
}

fn widest<'a>(texts: impl Iterator<Item = &'a str>, size: f64) -> f64 {
    texts.map(|text| text_width(text, size)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_run_has_a_bar_and_every_prediction_a_mark() {
        let row = |place: &str, seconds: f64, predicted: Option<f64>| {
            Row::of(&json!({
                "workload": "k4-gups", "parameters": {"place": place, "bytes": 1 << 20},
                "mitigation": "interleave", "seconds": seconds, "predicted_seconds": predicted,
                "predicted_bound": null, "threads": 2, "nodes": 1, "time": "simulated",
            }))
            .unwrap()
        };
        let rows = [
            row("first-touch", 2.0, Some(1.9)),
            row("interleave", 0.5, None),
            row("collocate", 4.0, Some(4.1)),
            row("best", 0.5, None),
        ];
        let picture = draw(&rows);
        let count = |what: &str| picture.matches(what).count();
        assert_eq!(count("class=\"dot"), 3 + 3, "three bars and the legend");
        assert_eq!(count("class=\"dot1\""), 1 + 1, "the best is not drawn twice");
        assert!(!picture.contains("best: interleave"), "{picture}");
        assert_eq!(count("class=\"axis\""), 1 + 1, "a prediction beyond the plot has no mark");
        assert_eq!(count("class=\"ground\""), 1 + 1, "the bar of 2.00 is shown to be cut");
        assert!(picture.contains("0.25  500 ms"), "{picture}");
        draw(&[]);
    }
}
