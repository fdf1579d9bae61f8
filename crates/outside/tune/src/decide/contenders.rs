//! Chooses the run that tells most about which plan is best: the knowledge gradient.
//!
//! Surfaces drawn from the screening model give the expected cost of each plan and the covariance
//! of the costs of two plans: a run of one plan tells about all that share a level with it. If the
//! costs are taken as jointly normal, the effect of a run on the expectations is known in advance
//! except for one standard normal number. From it follows the gain of naming another plan than the
//! leader afterwards. Once a run is chosen, the uncertainty is reduced to what it will leave, so
//! that the runs of a block complement each other.
//!
//! Source: P. Frazier, W. Powell, S. Dayanik, "The Knowledge-Gradient Policy for Correlated Normal
//! Beliefs", INFORMS Journal on Computing 21 (2009). Instead of the expected gain by the best of
//! all plans, the sum of the gains by each plan alone is used. It is simpler and prefers runs that
//! tell about many plans.

use statrs::distribution::{Continuous, ContinuousCDF, Normal};

use super::model::Surface;
use crate::shape::Candidate;

/// Most plans that are considered: those with most to gain over the leader.
const CONTENDERS: usize = 40;
/// Share of draws in which a plan must work to be considered.
const MAY_WORK: f64 = 0.3;
/// Share of draws in which a plan must work to lead.
const WORKS: f64 = 0.9;

/// A plan that may be best.
struct Contender {
    plan: Candidate,
    /// Its costs, one for each draw.
    costs: Vec<f64>,
    /// Their mean.
    mean: f64,
    /// Share of draws in which it works.
    works: f64,
    /// Expected gain of naming it instead of the leader if its cost were known.
    promise: f64,
}

/// The plans that may be best, and the distribution of their costs.
pub struct Contenders {
    /// The leader first.
    plans: Vec<Contender>,
    /// Covariance of the costs of two plans.
    covariance: Vec<Vec<f64>>,
}

impl Contenders {
    /// The contenders among these plans, by these draws; `None` if there are no draws, or if no plan
    /// is likely to work.
    pub fn new(candidates: impl IntoIterator<Item = Candidate>, draws: &[Surface]) -> Option<Self> {
        let mut plans: Vec<Contender> = candidates
            .into_iter()
            .map(|plan| Contender::new(plan, draws))
            .filter(|contender| contender.works >= MAY_WORK)
            .collect();
        let by_mean = |a: &usize, b: &usize| plans[*a].mean.total_cmp(&plans[*b].mean);
        let leader = (0..plans.len()).filter(|&i| plans[i].works >= WORKS).min_by(by_mean)?;
        plans.swap(0, leader);
        let (leader, others) = plans.split_first_mut()?;
        others.iter_mut().for_each(|other| other.promise = other.gain_over(leader));
        others.sort_by(|a, b| b.promise.total_cmp(&a.promise));
        plans.truncate(CONTENDERS);
        let covariance =
            plans.iter().map(|a| plans.iter().map(|b| a.covariance(b)).collect()).collect();
        Some(Self { plans, covariance })
    }

    /// The leader's expected cost, up to the constant of the draws.
    pub fn least(&self) -> f64 {
        self.plans.first().map_or(f64::NAN, |leader| leader.mean)
    }

    /// Expected cost of naming the leader over that of the best plan.
    pub fn loss(&self) -> f64 {
        let [leader, others @ ..] = self.plans.as_slice() else { return 0.0 };
        let gain = |(draw, cost): (usize, &f64)| {
            let least = others.iter().map(|other| other.costs[draw]).fold(*cost, f64::min);
            cost - least
        };
        leader.costs.iter().enumerate().map(gain).sum::<f64>() / leader.costs.len() as f64
    }

    /// The plan whose run tells most, given the runs chosen before. `noise` is the standard
    /// deviation of a run's cost.
    pub fn choose(&mut self, noise: f64) -> Candidate {
        let values: Vec<f64> = (0..self.plans.len()).map(|i| self.value(i, noise)).collect();
        let chosen =
            (0..values.len()).max_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap_or(0);
        let of_chosen = self.covariance[chosen].clone();
        let variance = of_chosen[chosen] + noise * noise;
        for (row, a) in self.covariance.iter_mut().zip(&of_chosen) {
            for (entry, b) in row.iter_mut().zip(&of_chosen) {
                *entry -= a * b / variance;
            }
        }
        self.plans[chosen].plan
    }

    /// Expected gain over naming the leader, from a run of this plan.
    fn value(&self, run: usize, noise: f64) -> f64 {
        let of_chosen = &self.covariance[run];
        let sigma = (of_chosen[run] + noise * noise).sqrt();
        let gain_of = |(other, of_plan): (&Contender, &f64)| {
            let swing = (of_plan - of_chosen[0]).abs() / sigma;
            other.works * gain(self.plans[0].mean - other.mean, swing)
        };
        self.plans[run].works * self.plans.iter().zip(of_chosen).skip(1).map(gain_of).sum::<f64>()
    }
}

impl Contender {
    fn new(plan: Candidate, draws: &[Surface]) -> Self {
        let count = draws.len().max(1) as f64;
        let costs: Vec<f64> = draws.iter().map(|surface| surface.cost(plan)).collect();
        let works = draws.iter().filter(|surface| !surface.fails(plan)).count() as f64 / count;
        Self { plan, mean: costs.iter().sum::<f64>() / count, costs, works, promise: 0.0 }
    }

    fn covariance(&self, other: &Self) -> f64 {
        let products = self.costs.iter().zip(&other.costs);
        products.map(|(a, b)| (a - self.mean) * (b - other.mean)).sum::<f64>()
            / self.costs.len() as f64
    }

    fn gain_over(&self, leader: &Self) -> f64 {
        let variance =
            self.covariance(self) + leader.covariance(leader) - 2.0 * self.covariance(leader);
        self.works * gain(leader.mean - self.mean, variance.max(0.0).sqrt())
    }
}

/// Expectation of the positive part of a normal number.
fn gain(mean: f64, sigma: f64) -> f64 {
    if sigma < 1e-9 {
        return mean.max(0.0);
    }
    let (normal, z) = (Normal::standard(), mean / sigma);
    sigma * (normal.pdf(z) + z * normal.cdf(z)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::super::model::{Effort, Given, Seen, draws};
    use super::super::prior::Prior;
    use super::*;
    use crate::shape::Shape;

    const EFFORT: Effort = Effort { chains: 2, draws: 200, steps: 2 };

    /// Contenders with these costs, each with its number of measurements.
    fn contenders(plans: &[(f64, usize)]) -> Contenders {
        let shape = Shape { levels: vec![plans.len()], extras: 0, ..Shape::default() };
        let mut seen = Vec::new();
        for run in 0..plans.iter().map(|plan| plan.1).max().unwrap() {
            for (plan, &(cost, runs)) in (0..).map(Candidate).zip(plans) {
                let wobble = if run % 2 == 0 { 0.02 } else { -0.02 };
                seen.extend((run < runs).then_some(Seen {
                    plan,
                    cost: Some(cost + wobble),
                    is_bound: false,
                }));
            }
        }
        let given = Given { noise: 0.02, prior: &Prior::default(), is_few: false };
        Contenders::new(shape.candidates(), &draws(&shape, &seen, given, EFFORT, 1)).unwrap()
    }

    #[test]
    fn what_may_be_better_is_worth_a_run_and_what_is_worse_is_not() {
        let mut open = contenders(&[(0.0, 8), (0.3, 8), (0.3, 8), (0.0, 0)]);
        assert!(open.loss() > 0.01, "{}", open.loss());
        let chosen: Vec<Candidate> = (0..3).map(|_| open.choose(0.02)).collect();
        assert_eq!(chosen[0], Candidate(3));
        assert!(!chosen.contains(&Candidate(1)) && !chosen.contains(&Candidate(2)), "{chosen:?}");
    }

    #[test]
    fn a_block_divides_its_runs_among_equals() {
        let mut equals = contenders(&[(0.3, 9), (0.0, 3), (0.0, 3), (0.3, 9)]);
        let chosen: Vec<Candidate> = (0..8).map(|_| equals.choose(0.02)).collect();
        for plan in [Candidate(1), Candidate(2)] {
            assert!(chosen.iter().filter(|&&other| other == plan).count() >= 2, "{chosen:?}");
        }
    }

    #[test]
    fn nothing_is_lost_by_naming_what_is_known_to_be_best() {
        let known = contenders(&[(0.3, 20), (0.0, 20), (0.3, 20)]);
        assert!(known.loss() < 1e-6, "{}", known.loss());
        assert!((known.least() - known.plans[0].mean).abs() < f64::EPSILON);
    }

    #[test]
    fn a_gain_is_half_the_mean_deviation_of_what_is_centred() {
        assert!((gain(0.0, 2.0) - 2.0 * 0.398_942).abs() < 1e-5);
        assert!((gain(3.0, 0.0) - 3.0).abs() < f64::EPSILON && gain(-3.0, 0.0) == 0.0);
        assert!(gain(-1.0, 0.1) < 1e-9);
    }
}
