//! What an earlier search predicts: the costs of all its plans, by the model of its runs.
//!
//! What that search expected itself is left out: otherwise an expectation would confirm itself from
//! search to search.

use super::model::Effort;
use super::prior::Prior;
use super::{Settings, propose};
use crate::evidence::Trial;
use crate::shape::{DEFAULT, Shape};

/// What a search predicts: the costs of all cells relative to the default's, and their standard
/// deviations.
pub type Prediction = (Vec<f64>, Vec<f64>);

/// The prediction of a search with these runs. `None` without runs of two plans that worked.
#[must_use]
pub fn prediction(shape: &Shape, settings: &Settings, evidence: &[Trial]) -> Option<Prediction> {
    let worked = || evidence.iter().filter(|trial| trial.value().is_some());
    let first = worked().next()?.order.candidate;
    if worked().all(|trial| trial.order.candidate == first) {
        return None;
    }
    let alone = Settings { prior: Prior::default(), ..settings.clone() };
    let draws = propose::surfaces(shape, &alone, evidence, Effort::FEW);
    let moments = |plan| {
        let costs = || draws.iter().map(|draw| draw.cost(plan) - draw.cost(DEFAULT));
        let mean = costs().sum::<f64>() / draws.len() as f64;
        let squares = costs().map(|cost| (cost - mean).powi(2)).sum::<f64>();
        (mean, (squares / draws.len() as f64).sqrt())
    };
    let cells = Shape { extras: 0, excluded: Vec::new(), ..shape.clone() };
    Some(cells.candidates().map(moments).unzip())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Failure, Goal, Order, Outcome, Phase};

    #[test]
    fn a_search_predicts_what_its_runs_have_shown() {
        // Level 2 of the first factor halves the time, level 1 fails, the second factor is idle.
        let shape = Shape { levels: vec![3, 2], ..Shape::default() };
        let settings = Settings::simple(Goal::Minimize, 100);
        let run = |index: usize| {
            let candidate = shape.candidates().nth(index % 6).unwrap();
            let level = shape.coordinates(candidate).unwrap()[0];
            let wobble = 1.0 + 0.01 * ((index * 7) % 5) as f64;
            let outcome = match level {
                1 => Outcome::Failed(Failure::Exit(1)),
                _ => Outcome::Value(wobble / (1 + level / 2) as f64),
            };
            Trial::new(Order { phase: Phase::Screen, block: 0, candidate }, 1.0, outcome)
        };
        let evidence: Vec<Trial> = (0..36).map(run).collect();
        let (found, deviations) = prediction(&shape, &settings, &evidence).unwrap();
        assert_eq!((found.len(), found[0]), (6, 0.0));
        assert!(found[1].abs() < 0.02, "{found:?}");
        for half in &found[4..] {
            assert!((half + std::f64::consts::LN_2).abs() < 0.02, "{found:?}");
        }
        // What failed is known less well than what worked.
        assert!(deviations[0] == 0.0 && deviations[4] < 0.02, "{deviations:?}");
        assert!(deviations[2] > deviations[4], "{deviations:?}");
    }

    #[test]
    fn one_plan_predicts_nothing() {
        let shape = Shape { levels: vec![2], ..Shape::default() };
        let settings = Settings::simple(Goal::Minimize, 100);
        let order = Order { phase: Phase::Noise, block: 0, candidate: DEFAULT };
        let runs = vec![Trial::new(order, 1.0, Outcome::Value(1.0)); 3];
        assert_eq!(prediction(&shape, &settings, &runs), None);
        assert_eq!(prediction(&shape, &settings, &[]), None);
    }
}
