//! Draws an experiment by the kind of its metric: numbers as bars or lines, points as lines,
//! matrices as heat maps, and traffic as maps.

mod bars;
mod heat;
mod lines;

use numapilot_study::experiment::{At, Experiment, Judged, Kind, Point};
use numapilot_topology::description::machine_named;

use crate::verbs::lab;

/// Maximum number of traffic and heat maps of one experiment.
const MAPS: usize = 6;

/// The pictures of an experiment; none if it has no results.
pub fn draw(experiment: &Experiment, judged: &Judged) -> Vec<String> {
    let Some(metric) = experiment.metrics.get(&experiment.picture) else { return Vec::new() };
    let unit = match metric.unit.as_str() {
        "" => experiment.picture.clone(),
        unit => format!("{}, {unit}", experiment.picture),
    };
    let points = &varying(experiment.along.as_deref(), &judged.points);
    let with_value = || points.iter().filter_map(|p| Some((p, p.value.as_ref()?))).take(MAPS);
    match metric.kind {
        Kind::Number => {
            if points.iter().all(|point| point.estimate.is_none()) {
                return Vec::new();
            }
            let along = experiment.along.as_deref();
            let numeric = along.and_then(|along| lines::numeric(along, points));
            vec![match numeric {
                Some(series) => lines::draw(along.unwrap_or_default(), &unit, series),
                None => bars::draw(along, &unit, points),
            }]
        }
        Kind::Points => {
            let series: Vec<lines::Line> = with_value()
                .map(|(point, value)| lines::Line::of_points(name(&point.at, None), value))
                .collect();
            let [x, y] = metric.points.clone().unwrap_or_default();
            if series.is_empty() { Vec::new() } else { vec![lines::draw(&x, &y, series)] }
        }
        Kind::Matrix => {
            with_value().map(|(point, value)| heat::draw(&name(&point.at, None), value)).collect()
        }
        Kind::Traffic => {
            let Ok(machine) = machine_named(&experiment.machine) else { return Vec::new() };
            let map = |(point, value): (&Point, &serde_json::Value)| {
                let region = serde_json::from_value(value.clone()).ok()?;
                Some(lab::svg::draw(&machine, &name(&point.at, None), &region))
            };
            with_value().filter_map(map).collect()
        }
    }
}

/// The cells without those factors that have only one level. The factor of the axis is kept.
fn varying(along: Option<&str>, points: &[Point]) -> Vec<Point> {
    let tells = |factor: &str| Some(factor) == along || levels(factor, points).len() > 1;
    let kept = |point: &Point| {
        let mut point = point.clone();
        point.at.retain(|factor, _| tells(factor));
        point
    };
    points.iter().map(kept).collect()
}

/// The levels as text, without that of one factor.
fn name(at: &At, without: Option<&str>) -> String {
    let words = at.iter().filter(|(factor, _)| Some(factor.as_str()) != without);
    words.map(|(_, level)| level.as_str()).collect::<Vec<_>>().join(", ")
}

/// The levels of a factor, in the experiment's order.
fn levels<'a>(factor: &str, points: &'a [Point]) -> Vec<&'a str> {
    let mut levels: Vec<&str> = Vec::new();
    for level in points.iter().filter_map(|point| point.at.get(factor)) {
        if !levels.contains(&level.as_str()) {
            levels.push(level);
        }
    }
    levels
}
