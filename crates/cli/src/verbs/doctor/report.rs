//! All checks, in groups.

use super::check::{Check, State};

/// Checks about one subject.
pub struct Group {
    pub key: &'static str,
    pub title: &'static str,
    pub checks: Vec<Check>,
}

impl Group {
    pub fn new(key: &'static str, title: &'static str, checks: Vec<Check>) -> Self {
        Self { key, title, checks }
    }
}

/// All groups of checks.
pub struct Report {
    pub groups: Vec<Group>,
}

impl Report {
    pub fn new(groups: Vec<Group>) -> Self {
        Self { groups }
    }

    pub fn checks(&self) -> impl Iterator<Item = &Check> {
        self.groups.iter().flat_map(|group| &group.checks)
    }

    pub fn count(&self, state: State) -> usize {
        self.checks().filter(|check| check.state == state).count()
    }

    /// Whether something `run` and `tune` need is missing.
    pub fn essential_missing(&self) -> bool {
        self.checks().any(|check| check.essential && check.state == State::Missing)
    }
}

/// A report with one check in each state.
#[cfg(test)]
pub fn sample() -> Report {
    Report::new(vec![
        Group::new(
            "a",
            "First",
            vec![
                Check::works("short", "yes"),
                Check::limited(
                    "a longer name",
                    "in part",
                    "a cause that is longer than one line of this narrow table can hold",
                    "a remedy",
                ),
            ],
        ),
        Group::new("b", "Second", vec![Check::missing("gone", "no", "why", "how").essential()]),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_essential_counts_as_a_failure() {
        assert!(sample().essential_missing());
        let fine = Group::new("a", "A", vec![Check::missing("gone", "no", "why", "how")]);
        assert!(!Report::new(vec![fine]).essential_missing());
    }
}
