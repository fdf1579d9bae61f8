//! How much the verdicts depend on the free parameters of the lab's model: `study run --vary`.

use numapilot_cli_kit::terminal::plural;
use numapilot_lab_model::Variation;
use numapilot_study::experiment::{ClaimResult, Experiment, Judged, ScaleName, Trial};
use numapilot_study::verdict::Verdict;

/// The verdicts of an experiment with a free parameter varied, for each variation that ran.
#[derive(Default)]
pub struct Sensitivity(Vec<(Variation, Judged)>);

/// How a comparison depends on the free parameters.
pub struct Dependence {
    /// Number of variations under which it has a verdict.
    pub decided: usize,
    /// The variations that change the verdict, each with the other one.
    pub flips: Vec<(Variation, Verdict)>,
}

impl Sensitivity {
    /// Judges every variation of which there are trials.
    pub fn of(experiment: &Experiment, scale: ScaleName, trials: &[Trial]) -> Self {
        let judged = Variation::all().into_iter().filter_map(|variation| {
            let judged = experiment.varied(&variation)?.judge(scale, trials);
            Some((variation, judged))
        });
        Self(judged.collect())
    }

    /// How a comparison depends on the free parameters; `None` if none was varied.
    pub fn dependence(&self, claim: &ClaimResult) -> Option<Dependence> {
        let of_variation = |(variation, judged): &(Variation, Judged)| {
            let varied = judged.claims.iter().find(|varied| varied.claim == claim.claim)?;
            is_decided(varied.verdict).then_some((*variation, varied.verdict))
        };
        let all: Vec<(Variation, Verdict)> = self.0.iter().filter_map(of_variation).collect();
        if all.is_empty() || !is_decided(claim.verdict) {
            return None;
        }
        let decided = all.len();
        let flips = all.into_iter().filter(|(_, verdict)| *verdict != claim.verdict).collect();
        Some(Dependence { decided, flips })
    }
}

fn is_decided(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Reproduced | Verdict::DirectionOnly | Verdict::NotReproduced)
}

impl Dependence {
    /// Whether a variation changes the verdict.
    pub fn is_fragile(&self) -> bool {
        !self.flips.is_empty()
    }

    /// For people: `fragile: not reproduced with quantum=2`.
    pub fn text(&self) -> String {
        let variations = plural(self.decided, "variation");
        if !self.is_fragile() {
            return format!("the same under {variations} of the model");
        }
        let flips: Vec<String> = self
            .flips
            .iter()
            .map(|(variation, verdict)| format!("{verdict} with {variation}"))
            .collect();
        format!("fragile: {}, of {variations} of the model", flips.join(", "))
    }
}
