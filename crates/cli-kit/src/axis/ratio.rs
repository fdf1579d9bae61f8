//! A logarithmic axis of ratios, on which half and twice are equally far from 1.

/// From this ratio of its ends on an axis is marked by decades.
const WIDE: f64 = 8.0;

/// The axis, from left to right.
pub struct RatioAxis {
    /// Left edge.
    pub left: f64,
    /// Length.
    pub width: f64,
    low: f64,
    high: f64,
}

impl RatioAxis {
    /// An axis that shows ratios from `low` to `high` (both above 0), with some air.
    pub fn new(left: f64, width: f64, low: f64, high: f64) -> Self {
        let pad = ((high / low).ln() * 0.04).exp();
        Self { left, width, low: low / pad, high: high * pad }
    }

    /// The place of a ratio, at the edge where it lies beyond.
    pub fn x(&self, ratio: f64) -> f64 {
        let share = (ratio / self.low).ln() / (self.high / self.low).ln();
        self.left + self.width * share.clamp(0.0, 1.0)
    }

    /// Whether a ratio lies on the axis.
    pub fn contains(&self, ratio: f64) -> bool {
        (self.low..=self.high).contains(&ratio)
    }

    fn step(&self) -> f64 {
        let span = self.high - self.low;
        [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
            .into_iter()
            .find(|step| span / step <= 9.0)
            .unwrap_or(span / 4.0)
    }

    /// Round ratios to mark.
    pub fn ticks(&self) -> Vec<f64> {
        let mut ticks: Vec<f64> = Vec::new();
        for tick in self.round_ratios() {
            // On a logarithmic axis large steps crowd at the right end only.
            if ticks.last().is_none_or(|&last| self.x(tick) - self.x(last) > 34.0) {
                ticks.push(tick);
            }
        }
        ticks
    }

    /// In equal steps, or 1, 2 and 5 of every decade where equal steps would leave the left
    /// half bare.
    fn round_ratios(&self) -> Vec<f64> {
        let on_axis = |tick: &f64| *tick > 0.0 && self.contains(*tick);
        if self.high / self.low > WIDE {
            let decades = (-3..=3).map(|decade| 10_f64.powi(decade));
            let ratios = decades.flat_map(|ten| [1.0, 2.0, 5.0].map(|digit| digit * ten));
            return ratios.filter(on_axis).collect();
        }
        let step = self.step();
        let first = (self.low / step).ceil();
        // The step is at least a ninth of the axis.
        (0..10).map(|index| (first + f64::from(index)) * step).filter(on_axis).collect()
    }

    /// What is written at a tick.
    pub fn label(&self, tick: f64) -> String {
        let digits = if self.step() < 0.01 { 3 } else { 2 };
        format!("{tick:.digits$}")
    }
}

/// The least and the largest of some ratios.
pub fn extremes(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, 0.0), |(low, high), &v| (v.min(low), v.max(high)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(low: f64, high: f64) -> Vec<String> {
        let axis = RatioAxis::new(0.0, 460.0, low, high);
        axis.ticks().into_iter().map(|tick| axis.label(tick)).collect()
    }

    #[test]
    fn ticks_are_round_and_spread_over_the_axis() {
        assert_eq!(
            ticks(0.98, 1.02),
            ["0.980", "0.985", "0.990", "0.995", "1.000", "1.005", "1.010", "1.015", "1.020"]
        );
        assert_eq!(
            ticks(0.6, 1.3),
            ["0.60", "0.70", "0.80", "0.90", "1.00", "1.10", "1.20", "1.30"]
        );
        assert_eq!(ticks(0.16, 9.0), ["0.20", "0.50", "1.00", "2.00", "5.00", "10.00"]);
    }

    #[test]
    fn what_lies_beyond_is_at_the_edge() {
        let axis = RatioAxis::new(10.0, 100.0, 0.5, 2.0);
        assert!((axis.x(1.0) - 60.0).abs() < 1e-9);
        assert_eq!((axis.x(0.001), axis.x(1000.0)), (10.0, 110.0));
        assert!(axis.contains(0.5) && !axis.contains(0.001));
    }
}
