//! A linear axis that begins at 0 and ends at a round value.

/// Steps between marks at most.
const MOST_STEPS: f64 = 8.0;

/// The axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearAxis {
    /// Its last value, a whole number of steps from 0.
    end: f64,
    step: f64,
}

impl LinearAxis {
    /// An axis for values up to `most`; of one step up to 1 where there are none above 0.
    pub fn new(most: f64) -> Self {
        if !(most.is_finite() && most > 0.0) {
            return Self { end: 1.0, step: 1.0 };
        }
        let ten = 10_f64.powf((most / MOST_STEPS).log10().floor());
        let steps = [1.0, 2.0, 5.0].map(|digit| digit * ten);
        let step = steps.into_iter().find(|step| most / step <= MOST_STEPS).unwrap_or(10.0 * ten);
        Self { end: (most / step).ceil() * step, step }
    }

    /// Part of the axis before a value.
    pub fn share(&self, value: f64) -> f64 {
        value / self.end
    }

    /// The values that are marked: round ones, from 0 to the end.
    pub fn ticks(&self) -> impl Iterator<Item = f64> + use<> {
        // At most MOST_STEPS.
        let steps = (self.end / self.step).round() as u32;
        let step = self.step;
        (0..=steps).map(move |number| f64::from(number) * step)
    }

    /// What is written at a tick: as many digits as the step has.
    pub fn label(&self, tick: f64) -> String {
        // Rounding may leave a step of 0.1 a little below that.
        let digits = (self.step.log10() + 1e-9).floor();
        match digits as i32 {
            _ if tick == 0.0 => "0".to_owned(),
            0..=5 => format!("{tick:.0}"),
            -4..0 => format!("{tick:.*}", -digits as usize),
            _ => format!("{tick:.1e}").replace(".0e", "e"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(most: f64) -> Vec<String> {
        let axis = LinearAxis::new(most);
        axis.ticks().map(|tick| axis.label(tick)).collect()
    }

    #[test]
    fn ticks_are_round_and_written_alike() {
        assert_eq!(labels(16.0), ["0", "2", "4", "6", "8", "10", "12", "14", "16"]);
        assert_eq!(labels(6.1), ["0", "1", "2", "3", "4", "5", "6", "7"]);
        assert_eq!(labels(100.0), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(1.97), ["0", "0.5", "1.0", "1.5", "2.0"]);
        assert_eq!(labels(0.0953), ["0", "0.02", "0.04", "0.06", "0.08", "0.10"]);
        assert_eq!(labels(3.3e7), ["0", "5e6", "1e7", "1.5e7", "2e7", "2.5e7", "3e7", "3.5e7"]);
        assert_eq!(labels(2e-6), ["0", "5e-7", "1e-6", "1.5e-6", "2e-6"]);
    }

    #[test]
    fn all_values_are_on_the_axis() {
        for most in [1e-6, 0.37, 1.0, 7.9, 8.1, 99.0, 1e9, 3.3e10, f64::MIN_POSITIVE] {
            let axis = LinearAxis::new(most);
            let marks = axis.ticks().count();
            assert!((0.5..=1.000_001).contains(&axis.share(most)), "{most}: {axis:?}");
            assert!((4..=9).contains(&marks), "{most}: {axis:?}, {marks} marks");
        }
    }

    #[test]
    fn nothing_to_show_has_an_axis_too() {
        for most in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(labels(most), ["0", "1"]);
        }
    }
}
