//! The definition of an experiment, a TOML file: `studies/*.toml`.

use std::collections::BTreeMap;
use std::fmt;

use numapilot_lab_model::{Parameter, VARIABLE, Variation};
use numapilot_topology::toml_text::{self, SyntaxError};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::quantity::Quantity;

/// The value of [`Experiment::machine`] for the machine that runs the study.
pub const HOST: &str = "host";

/// The amount of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScaleName {
    /// Takes seconds, and shows that everything works and the direction of large effects.
    Smoke,
    /// Takes some hours on a laptop.
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
    /// The identifier, such as `A5`.
    pub id: String,
    /// A short description.
    pub title: String,
    /// The paper, by the name that `study run --paper` accepts.
    pub paper: String,
    /// The table or figure of the paper.
    pub place: String,
    /// What the paper found.
    pub says: String,
    /// How the experiment differs from the paper's, with placeholders `{value}` for sizes.
    pub differs: String,
    /// The machine: [`HOST`], or a name of `lab list`.
    pub machine: String,
    /// The shell command, with placeholders `{factor}` and `{value}` for levels and sizes.
    pub command: String,
    /// The levels of each factor.
    #[serde(default)]
    pub factors: BTreeMap<String, Vec<Level>>,
    /// Sizes and repetitions by scale; a missing scale is replaced by the next smaller one.
    pub scale: BTreeMap<ScaleName, Scale>,
    /// The numbers to extract from the output.
    pub metrics: BTreeMap<String, Metric>,
    /// The comparisons with the paper.
    pub claims: Vec<Claim>,
    /// The metric that the picture shows.
    pub picture: String,
    /// The factor on the picture's axis; bars if there is none.
    pub along: Option<String>,
}

/// A level of a factor: its name, and the words that replace the placeholder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Level {
    /// The name is also the word.
    Word(String),
    /// Name and words.
    Named(String, String),
}

impl Level {
    /// The name of the level.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Word(name) | Self::Named(name, _) => name,
        }
    }

    /// The words that replace the placeholder.
    #[must_use]
    pub fn words(&self) -> &str {
        match self {
            Self::Word(words) | Self::Named(_, words) => words,
        }
    }
}

/// The settings of a scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// Number of rounds; each cell runs once in each.
    pub repetitions: u32,
    /// Time limit of a trial.
    #[serde(default = "timeout_seconds")]
    pub timeout_seconds: u32,
    /// The values by name.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// The levels that run, for factors that are restricted.
    #[serde(default)]
    pub only: BTreeMap<String, Vec<String>>,
}

fn timeout_seconds() -> u32 {
    600
}

/// Where the output of a trial has a number or the data of a picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// Path in the last printed JSON value that has it: names and positions, separated by dots.
    pub field: String,
    /// The unit for display.
    #[serde(default)]
    pub unit: String,
    /// The kind of value.
    #[serde(default)]
    pub kind: Kind,
    /// Fields of a list's elements for the two axes. An empty first field stands for the element's
    /// index.
    #[serde(default)]
    pub points: Option<[String; 2]>,
}

/// The kind of a metric.
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
    /// A region of `lab run --json`, drawn as a map of the traffic.
    Traffic,
}

/// A claim of the paper, and the rule of comparison.
///
/// With `of`, a number is compared with a band or a direction. With `order`, numbers are ordered
/// from the largest to the smallest. With neither, the claim is shown without a verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The claim in words.
    pub text: String,
    /// The number to compare.
    pub of: Option<Quantity>,
    /// The numbers to order, the largest first.
    #[serde(default)]
    pub order: Vec<Quantity>,
    /// The paper's value.
    pub paper: Option<PaperValue>,
    /// The claim is reproduced between these values.
    pub band: Option<[f64; 2]>,
    /// Above this value the direction is right.
    pub above: Option<f64>,
    /// Below this value the direction is right.
    pub below: Option<f64>,
    /// A known reason for a difference.
    pub remark: Option<String>,
}

/// A value as printed in the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PaperValue {
    /// A number, in the same unit as ours.
    Number(f64),
    /// A text.
    Text(String),
}

/// Why an experiment cannot be read.
#[derive(Debug, Error)]
pub enum DefinitionError {
    /// The text does not define an experiment.
    #[error("{name} is not an experiment: {cause}; see `numapilot study` in the manual")]
    Syntax {
        /// The origin of the text.
        name: String,
        /// The parser's error.
        cause: SyntaxError,
    },
    /// The definition names something that does not exist.
    #[error("{experiment}: {what}; correct the experiment's file")]
    Inconsistent {
        /// The identifier.
        experiment: String,
        /// The inconsistency.
        what: String,
    },
}

impl Experiment {
    /// Parses an experiment; `name` is used in messages.
    ///
    /// # Errors
    /// [`DefinitionError`].
    pub fn parse(name: &str, text: &str) -> Result<Self, DefinitionError> {
        let experiment: Self = toml_text::parse(text)
            .map_err(|cause| DefinitionError::Syntax { name: name.to_owned(), cause })?;
        experiment.check().map_err(|what| DefinitionError::Inconsistent {
            experiment: experiment.id.clone(),
            what,
        })?;
        Ok(experiment)
    }

    /// The settings of a scale, or those of the next smaller scale.
    #[must_use]
    pub fn at(&self, scale: ScaleName) -> Option<&Scale> {
        self.scale.range(..=scale).next_back().map(|(_, scale)| scale)
    }

    /// Whether trials run alone: on the host, their time is measured. Emulated machines count
    /// simulated time.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.machine == HOST
    }

    /// The same experiment with a free parameter of the lab's model varied; `None` if it does not
    /// depend on the parameter: on this host, or with the guest's clocks as they are.
    #[must_use]
    pub fn varied(&self, variation: &Variation) -> Option<Self> {
        let scales_time = || self.command.contains("--time-scale");
        if self.machine == HOST || (variation.parameter == Parameter::TimeScale && !scales_time()) {
            return None;
        }
        Some(Self {
            title: format!("{}, with {variation}", self.title),
            command: format!("export {VARIABLE}={variation}; {}", self.command),
            ..self.clone()
        })
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
            return Err(format!("differs: {{{name}}} is not a value of every scale"));
        }
        if let Some(factor) = &self.along {
            self.factors.get(factor).ok_or(format!("there is no factor {factor} for `along`"))?;
        }
        self.metric(&self.picture)?;
        for metric in self.metrics.values() {
            if (metric.kind == Kind::Points) != metric.points.is_some() {
                return Err(format!("{}: points need kind = \"points\"", metric.field));
            }
        }
        self.claims.iter().try_for_each(|claim| self.check_claim(claim))
    }

    fn check_claim(&self, claim: &Claim) -> Result<(), String> {
        let quantities: Vec<&Quantity> = claim.of.iter().chain(&claim.order).collect();
        for quantity in &quantities {
            if self.metric(&quantity.metric)?.kind != Kind::Number {
                return Err(format!("{} is not a number", quantity.metric));
            }
            let others = quantity.over.iter().chain(&quantity.speedup_from).flatten();
            let all = quantity.at.iter().chain(others);
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

/// Names in braces; other braces belong to the shell.
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
        assert!(error("id =", "identity =").contains("tiny.toml is not an experiment"));
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
