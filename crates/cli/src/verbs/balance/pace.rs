//! Decides how often samples are read and when sampling pauses: if there is nothing to gain,
//! balancing should cost nothing.

use std::time::Duration;

/// Least and most time between two reads, so that no samples are lost and a flood of them ends
/// soon.
const SLICES: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(250)];
/// Samples per read. With fewer the next read comes later; with four times as many, sooner.
const FEW: usize = 500;
/// Most intervals without sampling; a change is noticed after them.
const LONGEST_REST: u32 = 8;

/// The time until the next read.
#[derive(Debug)]
pub struct Slice(Duration);

impl Slice {
    /// Begins with the shortest time: a program that starts has much to do.
    pub const fn new() -> Self {
        Self(SLICES[0])
    }

    /// Adjusts the time to the number of samples of a read.
    pub fn came(&mut self, samples: usize) {
        let next = match samples {
            0..=FEW => self.0 * 2,
            2000.. => self.0 / 2,
            _ => self.0,
        };
        self.0 = next.clamp(SLICES[0], SLICES[1]);
    }

    pub const fn length(&self) -> Duration {
        self.0
    }
}

/// Intervals without sampling. After each interval that found nothing to gain, their number
/// doubles.
#[derive(Debug, Default)]
pub struct Rest {
    last: u32,
    left: u32,
}

impl Rest {
    /// Records whether an interval found nothing to gain.
    pub fn found(&mut self, nothing: bool) {
        self.last = if nothing { (self.last * 2).clamp(1, LONGEST_REST) } else { 0 };
        self.left = self.last;
    }

    /// Whether intervals without sampling remain.
    pub const fn lasts(&self) -> bool {
        self.left > 0
    }

    /// Counts an interval without sampling. Returns whether it was the last one.
    pub const fn slept(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_need_few_looks() {
        let mut slice = Slice::new();
        slice.came(0);
        assert_eq!(slice.length(), 2 * SLICES[0]);
        (0..5).for_each(|_| slice.came(FEW));
        assert_eq!(slice.length(), SLICES[1]);
        slice.came(1000);
        assert_eq!(slice.length(), SLICES[1]);
        (0..5).for_each(|_| slice.came(100_000));
        assert_eq!(slice.length(), SLICES[0]);
    }

    #[test]
    fn rests_grow_until_there_is_something_to_gain() {
        let mut rest = Rest::default();
        let mut length = |nothing| {
            rest.found(nothing);
            let mut intervals = 0;
            while rest.lasts() {
                intervals += 1;
                assert_eq!(rest.slept(), !rest.lasts());
            }
            intervals
        };
        let lengths: Vec<u32> = (0..6).map(|_| length(true)).collect();
        assert_eq!(lengths, [1, 2, 4, 8, 8, 8]);
        assert_eq!((length(false), length(true)), (0, 1));
    }
}
