//! The end of a series of runs, and the choice of its median run.

/// How a series of runs ended. Completed runs are kept in any case.
pub enum End {
    Whole,
    Interrupted,
    Failed(anyhow::Error),
}

/// The median run by a figure; of an even number of runs, the lower of the two in the middle.
pub fn median<T>(mut runs: Vec<T>, figure: impl Fn(&T) -> f64) -> Option<T> {
    runs.sort_by(|a, b| figure(a).total_cmp(&figure(b)));
    let middle = runs.len().checked_sub(1)? / 2;
    Some(runs.swap_remove(middle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_in_the_middle_is_kept() {
        let of = |runs: &[f64]| median(runs.to_vec(), |run| *run);
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(of(&[4.0, 1.0, 3.0, 2.0]), Some(2.0));
        assert_eq!(of(&[]), None);
    }
}
