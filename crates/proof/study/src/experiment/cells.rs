//! The combinations of factor levels: the commands that an experiment runs at a scale.

use super::definition::{Experiment, Level, ScaleName};
use super::quantity::At;

/// A combination of factor levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The levels.
    pub at: At,
    /// The shell command.
    pub command: String,
}

/// All cells of an experiment at a scale.
#[must_use]
pub fn cells(experiment: &Experiment, scale: ScaleName) -> Vec<Cell> {
    let Some(scale) = experiment.at(scale) else { return Vec::new() };
    let mut cells = vec![Cell { at: At::new(), command: experiment.command.clone() }];
    for (factor, levels) in &experiment.factors {
        let only = scale.only.get(factor);
        let kept = |level: &&Level| only.is_none_or(|only| only.iter().any(|n| n == level.name()));
        let levels: Vec<&Level> = levels.iter().filter(kept).collect();
        let with = |cell: &Cell, level: &Level| {
            let mut at = cell.at.clone();
            at.insert(factor.clone(), level.name().to_owned());
            Cell { at, command: filled(&cell.command, factor, level.words()) }
        };
        cells = cells
            .iter()
            .flat_map(|cell| levels.iter().map(|level| with(cell, level)).collect::<Vec<_>>())
            .collect();
    }
    for cell in &mut cells {
        for (name, value) in &scale.values {
            cell.command = filled(&cell.command, name, value);
        }
        // Levels with empty words leave gaps.
        cell.command = cell.command.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    cells
}

impl Experiment {
    /// How the experiment differs from the paper's, at a scale.
    #[must_use]
    pub fn differs_at(&self, scale: ScaleName) -> String {
        let values = self.at(scale).into_iter().flat_map(|scale| &scale.values);
        values.fold(self.differs.clone(), |text, (name, value)| filled(&text, name, value))
    }
}

fn filled(command: &str, name: &str, words: &str) -> String {
    command.replace(&format!("{{{name}}}"), words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::tests::TINY;

    #[test]
    fn what_differs_may_depend_on_the_scale() {
        let text = TINY.replace("all of it", "{size} in place of 100");
        let tiny = Experiment::parse("tiny", &text).unwrap();
        assert_eq!(tiny.differs_at(ScaleName::Laptop), "10 in place of 100");
        let unknown = Experiment::parse("tiny", &text.replace("{size} in", "{sizes} in"));
        assert!(unknown.unwrap_err().to_string().contains("{sizes} is not a value of every scale"));
    }

    #[test]
    fn levels_are_crossed_and_a_scale_may_leave_some_out() {
        let text = TINY.replace("[factors]", "[factors]\nthreads = [\"1\", \"2\"]");
        let text = text.replace("{size}", "{threads} {size}");
        let commands = |text: &str| -> Vec<String> {
            let tiny = Experiment::parse("tiny", text).unwrap();
            cells(&tiny, ScaleName::Smoke).into_iter().map(|cell| cell.command).collect()
        };
        let all = commands(&text);
        assert_eq!(all.len(), 4);
        assert!(all[0].ends_with("1.0}' # 1 10") && all[3].ends_with("2.0}' # 2 10"), "{all:?}");
        let fewer = text.replace("[scale.smoke]", "[scale.smoke]\nonly = { threads = [\"2\"] }");
        assert_eq!(commands(&fewer), [all[1].clone(), all[3].clone()]);
    }
}
