//! The scale of an axis: from values to positions in the picture.

use super::Labels;
use crate::axis::LinearAxis;

/// Space between an end of the axis and the nearest name.
const PADDING: f64 = 12.0;

/// A scale.
pub struct Scale<'a> {
    labels: &'a Labels,
    axis: LinearAxis,
    /// Position of 0.
    start: f64,
    /// Signed length: the position of the last value minus `start`.
    length: f64,
}

/// A tick.
pub struct Tick {
    pub position: f64,
    pub label: String,
}

impl<'a> Scale<'a> {
    /// A scale for values up to `most`.
    pub fn new(labels: &'a Labels, most: f64, start: f64, length: f64) -> Self {
        Self { labels, axis: LinearAxis::new(most), start, length }
    }

    /// The position of a value. Values beyond the axis are at its end.
    pub fn position(&self, value: f64) -> f64 {
        match self.labels {
            Labels::Names(names) => {
                let spaces = names.len().saturating_sub(1).max(1) as f64;
                let padding = PADDING * self.length.signum();
                self.start + padding + (self.length - 2.0 * padding) * value / spaces
            }
            _ => self.start + self.length * self.axis.share(value).clamp(0.0, 1.0),
        }
    }

    /// Whether the ticks have grid lines.
    pub fn has_grid(&self) -> bool {
        !matches!(self.labels, Labels::Names(_))
    }

    /// The ticks, from 0 up.
    pub fn ticks(&self) -> impl Iterator<Item = Tick> {
        let values: Vec<(f64, String)> = match self.labels {
            Labels::Names(names) => {
                names.iter().enumerate().map(|(at, name)| (at as f64, name.clone())).collect()
            }
            Labels::Whole => {
                let whole = self.axis.ticks().filter(|tick| tick.fract() == 0.0);
                whole.map(|tick| (tick, format!("{tick:.0}"))).collect()
            }
            Labels::Number("") => {
                self.axis.ticks().map(|tick| (tick, self.axis.label(tick))).collect()
            }
            Labels::Number(unit) => {
                let text = |tick| format!("{} {unit}", self.axis.label(tick));
                self.axis.ticks().map(|tick| (tick, text(tick))).collect()
            }
            Labels::Text(text) => self.axis.ticks().map(|tick| (tick, text(tick))).collect(),
        };
        values.into_iter().map(|(value, label)| Tick { position: self.position(value), label })
    }
}
