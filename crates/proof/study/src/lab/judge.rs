//! Computes verdicts from the evidence.

use serde::Serialize;

use super::errors::Errors;
use super::evidence::Evidence;
use super::study::{Curve, Figure, Measured, Reading, Study};
use crate::verdict::Verdict;

/// A curve that falls by less than this share counts as level, because latencies are rounded.
const LEVEL: f64 = 0.02;

/// A study with its verdicts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The figures, in the study's order.
    pub figures: Vec<FigureResult>,
    /// The curves, in the study's order.
    pub curves: Vec<CurveResult>,
    /// How far the figures are off: those of each claim, and all; empty unless the study asks for
    /// it.
    pub errors: Vec<Errors>,
}

/// A figure with its verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureResult {
    /// The claim.
    pub claim: String,
    /// The name of the figure.
    pub name: String,
    /// The measured value.
    pub value: Option<f64>,
    /// The value from the source.
    pub expected: Option<f64>,
    /// The name of the figure's own source.
    pub source: Option<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// Why there is no value, or a known reason for a difference.
    pub remark: Option<String>,
}

impl FigureResult {
    /// The value by the expected one, less 1.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        Some(self.value? / self.expected.filter(|expected| *expected != 0.0)? - 1.0)
    }
}

/// A curve with its verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CurveResult {
    /// The claim.
    pub claim: String,
    /// The name of the curve.
    pub name: String,
    /// Names of the axes.
    pub axes: [String; 2],
    /// The points that have a value.
    pub points: Vec<[f64; 2]>,
    /// Where the curve should start to rise.
    pub knee: Option<f64>,
    /// Reproduced if the curve never falls.
    pub verdict: Verdict,
    /// Why points are missing.
    pub remark: Option<String>,
}

impl Study {
    /// Compares the results with the expected values.
    #[must_use]
    pub fn judge(&self, evidence: &Evidence) -> Judged {
        let curves: Vec<CurveResult> =
            self.curves.iter().map(|curve| draw(curve, evidence)).collect();
        let figures: Vec<FigureResult> =
            self.figures.iter().map(|figure| judge(figure, evidence, &curves)).collect();
        let asked = figures.iter().filter(|_| self.errors);
        let pairs: Vec<_> = asked.map(|figure| (figure.claim.as_str(), figure.error())).collect();
        let errors = Errors::by_claim(&pairs);
        Judged { figures, curves, errors }
    }
}

/// The height of a curve, or the reason why it is unknown.
fn height(reading: &Reading, curves: &[CurveResult]) -> Result<f64, String> {
    let curve = curves.iter().find(|curve| curve.name == reading.curve);
    let curve = curve.ok_or_else(|| format!("there is no curve {}", reading.curve))?;
    if let Some(missing) = curve.remark.as_ref().filter(|_| curve.points.is_empty()) {
        return Err(missing.clone());
    }
    let mut points = curve.points.clone();
    points.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let beside = points.windows(2).find(|pair| (pair[0][0]..=pair[1][0]).contains(&reading.at));
    let Some(&[[x, y], [next_x, next_y]]) = beside.and_then(|pair| pair.first_chunk()) else {
        return Err(format!("curve {} has no points around {}", reading.curve, reading.at));
    };
    let share = if next_x > x { (reading.at - x) / (next_x - x) } else { 0.0 };
    Ok(y + share * (next_y - y))
}

fn judge(figure: &Figure, evidence: &Evidence, curves: &[CurveResult]) -> FigureResult {
    let value = match &figure.value {
        Measured::Term(term) => evidence.term(term),
        Measured::Reading(reading) => height(reading, curves),
    };
    let expected = evidence.value(&figure.expected);
    let verdict = match (&value, &expected) {
        (Ok(value), Ok(expected)) => {
            let off = figure.tolerance.unwrap_or(0.0) * expected.abs();
            let band = figure.band.unwrap_or([expected - off, expected + off]);
            let within = |[low, high]: [f64; 2]| (low..=high).contains(value);
            if within(band) {
                Verdict::Reproduced
            } else if figure.direction.is_some_and(within) {
                Verdict::DirectionOnly
            } else {
                Verdict::NotReproduced
            }
        }
        _ => Verdict::NotRunHere,
    };
    let missing = value.clone().err().or(expected.clone().err());
    FigureResult {
        claim: figure.claim.clone(),
        name: figure.name.clone(),
        value: value.ok(),
        expected: expected.ok(),
        source: figure.source.clone(),
        verdict,
        remark: missing.or(figure.remark.clone().filter(|_| verdict != Verdict::Reproduced)),
    }
}

fn draw(curve: &Curve, evidence: &Evidence) -> CurveResult {
    let point = |region: &String| {
        let on = |axis| evidence.on(axis, &curve.run, region);
        Ok([on(&curve.x)?, on(&curve.y)?])
    };
    let points: Result<Vec<[f64; 2]>, String> = curve.regions.iter().map(point).collect();
    let rising = |points: &Vec<[f64; 2]>| {
        points.windows(2).all(|pair| pair[1][1] >= pair[0][1] * (1.0 - LEVEL))
    };
    let verdict = match &points {
        Err(_) => Verdict::NotRunHere,
        Ok(points) if rising(points) => Verdict::Reproduced,
        Ok(_) => Verdict::NotReproduced,
    };
    CurveResult {
        claim: curve.claim.clone(),
        name: curve.name.clone(),
        axes: [curve.x.name.clone(), curve.y.name.clone()],
        remark: points.as_ref().err().cloned(),
        points: points.unwrap_or_default(),
        knee: curve.knee.as_ref().and_then(|knee| evidence.value(knee).ok()),
        verdict,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const STUDY: &str = "
        title = 't'
        source = 's'
        [[runs]]
        name = 'r'
        machine = 'm'
        command = []
        [[figures]]
        claim = 'A'
        name = 'f'
        value = { run = 'r', field = 'v' }
        expected = { machine = 'm', field = 'latency_ns.0' }
        tolerance = 0.1
        direction = [1.0, 1000.0]
        remark = 'because'
        [[curves]]
        claim = 'C'
        name = 'c'
        run = 'r'
        regions = ['all', 'more']
        x = { name = 'x', field = 'v' }
        y = { name = 'y', field = 'v', times = 2.0 }
    ";

    fn measured(first: f64, second: f64) -> Evidence {
        let mut evidence = Evidence::default();
        let regions = json!([{"name": "all", "v": first}, {"name": "more", "v": second}]);
        evidence.counted.insert("r".to_owned(), json!({ "regions": regions }));
        evidence.machines.insert("m".to_owned(), json!({"latency_ns": [100.0]}));
        evidence
    }

    fn judged(first: f64, second: f64) -> Judged {
        Study::parse(STUDY).unwrap().judge(&measured(first, second))
    }

    #[test]
    fn verdicts_follow_the_bands() {
        let figure = |value| judged(value, 0.0).figures.remove(0);
        assert_eq!(figure(91.0).verdict, Verdict::Reproduced);
        assert_eq!((figure(91.0).expected, figure(91.0).remark), (Some(100.0), None));
        assert_eq!(figure(120.0).verdict, Verdict::DirectionOnly);
        assert_eq!(figure(120.0).remark.as_deref(), Some("because"));
        assert_eq!(figure(0.5).verdict, Verdict::NotReproduced);
        let nothing = Study::parse(STUDY).unwrap().judge(&Evidence::default());
        assert_eq!(nothing.figures[0].verdict, Verdict::NotRunHere);
        assert_eq!(nothing.figures[0].remark.as_deref(), Some("run r was not made"));
        assert_eq!(nothing.curves[0].verdict, Verdict::NotRunHere);
    }

    #[test]
    fn a_curve_is_read_between_its_points() {
        let figure = |at: f64| {
            let text = STUDY
                .replace("{ run = 'r', field = 'v' }", &format!("{{ curve = 'c', at = {at:?} }}"));
            Study::parse(&text).unwrap().judge(&measured(10.0, 30.0)).figures.remove(0)
        };
        // The points are (10, 20) and (30, 60).
        assert_eq!(figure(10.0).value, Some(20.0));
        assert_eq!(figure(15.0).value, Some(30.0));
        assert_eq!(figure(15.0).error(), Some(-0.7));
        assert_eq!(figure(31.0).value, None);
        assert_eq!(figure(31.0).remark.as_deref(), Some("curve c has no points around 31"));
    }

    #[test]
    fn errors_are_distributed_only_for_studies_that_ask() {
        assert!(judged(91.0, 0.0).errors.is_empty());
        let text = format!("errors = true\n{STUDY}");
        let errors = Study::parse(&text).unwrap().judge(&measured(91.0, 0.0)).errors;
        assert_eq!(errors.len(), 2);
        assert_eq!((errors[0].claim.as_deref(), errors[0].figures), (Some("A"), 1));
        assert!((errors[1].median - 0.09).abs() < 1e-12, "{errors:?}");
    }

    #[test]
    fn a_curve_may_not_fall() {
        let curve = |second| judged(100.0, second).curves.remove(0);
        assert_eq!(curve(99.0).verdict, Verdict::Reproduced);
        assert_eq!(curve(99.0).points, [[100.0, 200.0], [99.0, 198.0]]);
        assert_eq!(curve(90.0).verdict, Verdict::NotReproduced);
    }
}
