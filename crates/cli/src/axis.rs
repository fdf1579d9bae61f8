//! A logarithmic axis of ratios, on which half and twice are equally far from 1.

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
        let step = self.step();
        let first = (self.low / step).ceil();
        let mut ticks: Vec<f64> = Vec::new();
        let mut index = first;
        while index * step <= self.high {
            let tick = index * step;
            // On a logarithmic axis large steps crowd at the right end only.
            if tick > 0.0 && ticks.last().is_none_or(|&last| self.x(tick) - self.x(last) > 34.0) {
                ticks.push(tick);
            }
            index += 1.0;
        }
        ticks
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
