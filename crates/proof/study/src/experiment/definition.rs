//! The description of an experiment, which is data: `studies/*.toml`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::quantity::Quantity;

/// What [`Experiment::machine`] calls the machine that runs the study.
pub const HOST: &str = "host";

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScaleName {
    /// Seconds: shows that it works, and the directions of what is large.
    Smoke,
    /// Some hours on a laptop.
    Laptop,
    /// The paper's sizes.
    Paper,
}

impl fmt::Display for ScaleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Smoke => "smoke",
            Self::Laptop => "laptop",
            Self::Paper => "paper",
        })
    }
}

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// What it is called: `A5`.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The paper, by the name that `study run --paper` takes.
    pub paper: String,
    /// Table or figure in it.
    pub place: String,
    /// What the paper found.
    pub says: String,
    /// In what way ours is another experiment than the paper's, with `{value}` where sizes go.
    pub differs: String,
    /// Where it runs: [`HOST`], or a machine of `lab list`.
    pub machine: String,
    /// Whether nothing else may run beside its trials, though they are on an emulated machine:
    /// a guest's scheduler and the daemons in it act by its clock, which is the host's, so that
    /// a host with less time for a guest makes them act more often on the same work.
    #[serde(default)]
    pub alone: bool,
    /// A line for the shell, with `{factor}` and `{value}` where levels and sizes go.
    pub command: String,
    /// Levels by factor.
    #[serde(default)]
    pub factors: BTreeMap<String, Vec<Level>>,
    /// Sizes and repetitions by scale; a scale that is not there is the one below it.
    pub scale: BTreeMap<ScaleName, Scale>,
    /// Numbers to take out of what is printed.
    pub metrics: BTreeMap<String, Metric>,
    /// What is compared with the paper.
    pub claims: Vec<Claim>,
    /// What the picture shows: a metric.
    pub picture: String,
    /// The factor along the picture's axis; its bars, when there is none.
    pub along: Option<String>,
}

/// A level of a factor: its name, and the words that stand for it in the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Level {
    /// The name is the word.
    Word(String),
    /// Name and words.
    Named(String, String),
}

impl Level {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Word(name) | Self::Named(name, _) => name,
        }
    }

    /// What stands for it in the command.
    #[must_use]
    pub fn words(&self) -> &str {
        match self {
            Self::Word(words) | Self::Named(_, words) => words,
        }
    }
}

/// What a scale sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// Rounds in which every cell runs once.
    pub repetitions: u32,
    /// When a trial is ended.
    #[serde(default = "timeout_seconds")]
    pub timeout_seconds: u32,
    /// Values by name.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// Only these levels, by factor.
    #[serde(default)]
    pub only: BTreeMap<String, Vec<String>>,
}

fn timeout_seconds() -> u32 {
    600
}

/// Where a number, or a picture's data, is found in what a trial prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// Path in the last JSON value printed that has it: names and positions with dots between.
    pub field: String,
    /// Unit, for the reader.
    #[serde(default)]
    pub unit: String,
    /// Number, points or matrix.
    #[serde(default)]
    pub kind: Kind,
    /// Fields of a list's elements: along the axis (their number, where empty) and upwards.
    #[serde(default)]
    pub points: Option<[String; 2]>,
}

/// What a metric is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A number.
    #[default]
    Number,
    /// A list of points.
    Points,
    /// Rows of numbers.
    Matrix,
    /// A region of `lab run --json`, of which a map of the traffic is drawn.
    Traffic,
}

/// Something the paper found, and the rule by which ours is compared.
///
/// With `of`, a number against a band or a direction; with `order`, numbers from the largest
/// to the smallest; with neither, what is shown without a verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// In words.
    pub text: String,
    /// The number.
    pub of: Option<Quantity>,
    /// Numbers, the largest first.
    #[serde(default)]
    pub order: Vec<Quantity>,
    /// The paper's value.
    pub paper: Option<PaperValue>,
    /// Between these it is reproduced.
    pub band: Option<[f64; 2]>,
    /// Above this it has at least the right direction.
    pub above: Option<f64>,
    /// Below this it has.
    pub below: Option<f64>,
    /// What is known of a difference.
    pub remark: Option<String>,
}

/// A value as the paper prints it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PaperValue {
    /// In the unit of ours.
    Number(f64),
    /// In words.
    Text(String),
}

/// Why an experiment cannot be read.
#[derive(Debug, Error)]
pub enum DefinitionError {
    /// It is no description of an experiment.
    #[error("{name} is no experiment ({cause}); see `numapilot study` in the manual")]
    Syntax {
        /// Where it is from.
        name: String,
        /// What is wrong.
        cause: toml::de::Error,
    },
    /// Something is named that is not there.
    #[error("{experiment}: {what}; correct the experiment's file")]
    Inconsistent {
        /// Its id.
        experiment: String,
        /// What is wrong.
        what: String,
    },
}

impl Experiment {
    /// Reads an experiment; `name` is for messages.
    ///
    /// # Errors
    /// [`DefinitionError`].
    pub fn parse(name: &str, text: &str) -> Result<Self, DefinitionError> {
        let experiment: Self = toml::from_str(text)
            .map_err(|cause| DefinitionError::Syntax { name: name.to_owned(), cause })?;
        experiment.check().map_err(|what| DefinitionError::Inconsistent {
            experiment: experiment.id.clone(),
            what,
        })?;
        Ok(experiment)
    }

    /// What holds at a scale: its own entry, or that of the next smaller one.
    #[must_use]
    pub fn at(&self, scale: ScaleName) -> Option<&Scale> {
        self.scale.range(..=scale).next_back().map(|(_, scale)| scale)
    }

    /// Whether nothing else may run beside its trials: on the host their time is what is
    /// measured. Smoke scale shows whether all of it runs, in little time.
    #[must_use]
    pub fn is_alone(&self, scale: ScaleName) -> bool {
        self.machine == HOST || self.alone && scale > ScaleName::Smoke
    }

    fn check(&self) -> Result<(), String> {
        if !self.scale.contains_key(&ScaleName::Smoke) {
            return Err("[scale.smoke] is missing".to_owned());
        }
        for (name, scale) in &self.scale {
            if scale.repetitions == 0 {
                return Err(format!("scale {name} has no repetitions"));
            }
            for (factor, levels) in &scale.only {
                levels.iter().try_for_each(|level| self.known(factor, level))?;
                if levels.is_empty() {
                    return Err(format!("scale {name} leaves no level of {factor}"));
                }
            }
        }
        let everywhere = |name| self.scale.values().all(|scale| scale.values.contains_key(name));
        for name in placeholders(&self.command) {
            if !self.factors.contains_key(name) && !everywhere(name) {
                return Err(format!("{{{name}}} is neither a factor nor a value of every scale"));
            }
        }
        if let Some(name) = placeholders(&self.differs).find(|name| !everywhere(name)) {
            return Err(format!("differs: {{{name}}} is no value of every scale"));
        }
        if let Some(factor) = &self.along {
            self.factors.get(factor).ok_or(format!("there is no factor {factor} to go along"))?;
        }
        self.metric(&self.picture)?;
        for metric in self.metrics.values() {
            if (metric.kind == Kind::Points) != metric.points.is_some() {
                return Err(format!("{}: points go with kind = \"points\"", metric.field));
            }
        }
        self.claims.iter().try_for_each(|claim| self.check_claim(claim))
    }

    fn check_claim(&self, claim: &Claim) -> Result<(), String> {
        let quantities: Vec<&Quantity> = claim.of.iter().chain(&claim.order).collect();
        for quantity in &quantities {
            if self.metric(&quantity.metric)?.kind != Kind::Number {
                return Err(format!("{} is no number", quantity.metric));
            }
            let all = quantity.at.iter().chain(quantity.over.iter().flatten());
            for (factor, level) in all {
                self.known(factor, level)?;
            }
        }
        let rules = [claim.band.is_some(), claim.above.is_some(), claim.below.is_some()];
        let has_rule = rules.contains(&true);
        match (claim.of.is_some(), claim.order.len()) {
            (true, 0) if has_rule && !(rules[1] && rules[2]) => Ok(()),
            (false, 0) if !has_rule => Ok(()),
            (false, 2..) if !has_rule => Ok(()),
            _ => Err(format!(
                "'{}' needs `of` with a band or one of above and below, an `order` of two or \
                 more, or none of these",
                claim.text
            )),
        }
    }

    fn metric(&self, name: &str) -> Result<&Metric, String> {
        self.metrics.get(name).ok_or(format!("there is no metric {name}"))
    }

    fn known(&self, factor: &str, level: &str) -> Result<(), String> {
        let levels = self.factors.get(factor).ok_or(format!("there is no factor {factor}"))?;
        match levels.iter().any(|known| known.name() == level) {
            true => Ok(()),
            false => Err(format!("{factor} has no level {level}")),
        }
    }
}

/// Names between braces; other braces are the shell's.
fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    let name = |part: &'_ str| -> Option<usize> {
        let end = part.find(|c: char| !(c.is_ascii_lowercase() || c == '_'))?;
        (end > 0 && part[end..].starts_with('}')).then_some(end)
    };
    text.split('{').skip(1).filter_map(move |part| Some(&part[..name(part)?]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::tests::TINY;

    #[test]
    fn what_does_not_fit_together_is_named() {
        let error = |from: &str, to: &str| {
            let text = TINY.replacen(from, to, 1);
            assert_ne!(text, TINY, "{from} is not there");
            Experiment::parse("tiny.toml", &text).unwrap_err().to_string()
        };
        Experiment::parse("tiny.toml", TINY).unwrap();
        assert!(error("id =", "identity =").contains("tiny.toml is no experiment"));
        assert!(error("[scale.smoke]", "[scale.laptop]").contains("[scale.smoke] is missing"));
        assert!(error("{size}", "{sizes}").contains("{sizes} is neither"));
        assert!(error("metric = \"seconds\"", "metric = \"second\"").contains("no metric second"));
        assert!(error("at = { kind = \"slow\" }", "at = { kind = \"x\" }").contains("level x"));
        assert!(error("above = 1.0", "above = 1.0\nbelow = 2.0").contains("needs `of`"));
        assert!(error("repetitions = 3", "repetitions = 0").contains("no repetitions"));
    }

    #[test]
    fn a_scale_that_is_not_there_is_the_one_below() {
        let tiny = Experiment::parse("tiny.toml", TINY).unwrap();
        assert_eq!(tiny.at(ScaleName::Paper), tiny.at(ScaleName::Smoke));
    }
}
