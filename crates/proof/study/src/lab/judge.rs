//! Computes verdicts from the evidence.

use serde::Serialize;

use super::evidence::Evidence;
use super::study::{Curve, Figure, Study};
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
    /// The verdict.
    pub verdict: Verdict,
    /// Why there is no value, or a known reason for a difference.
    pub remark: Option<String>,
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
        Judged {
            figures: self.figures.iter().map(|figure| judge(figure, evidence)).collect(),
            curves: self.curves.iter().map(|curve| draw(curve, evidence)).collect(),
        }
    }
}

fn judge(figure: &Figure, evidence: &Evidence) -> FigureResult {
    let (value, expected) = (evidence.term(&figure.value), evidence.value(&figure.expected));
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

    fn judged(first: f64, second: f64) -> Judged {
        let mut evidence = Evidence::default();
        let regions = json!([{"name": "all", "v": first}, {"name": "more", "v": second}]);
        evidence.counted.insert("r".to_owned(), json!({ "regions": regions }));
        evidence.machines.insert("m".to_owned(), json!({"latency_ns": [100.0]}));
        Study::parse(STUDY).unwrap().judge(&evidence)
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
    fn a_curve_may_not_fall() {
        let curve = |second| judged(100.0, second).curves.remove(0);
        assert_eq!(curve(99.0).verdict, Verdict::Reproduced);
        assert_eq!(curve(99.0).points, [[100.0, 200.0], [99.0, 198.0]]);
        assert_eq!(curve(90.0).verdict, Verdict::NotReproduced);
    }
}
