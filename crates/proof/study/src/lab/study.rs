//! The definition of a lab study, a TOML file: `studies/*.toml`.

use std::collections::{BTreeMap, BTreeSet};

use numapilot_topology::toml_text::{self, SyntaxError};
use serde::Deserialize;
use thiserror::Error;

/// The built-in study.
const STANDARD: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../studies/lab.toml"));

/// A lab study.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// The title.
    pub title: String,
    /// The source of the expected values.
    pub source: String,
    /// Sources of single figures, by the names under which figures refer to them.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
    /// Whether the distribution of the figures' errors is a result, too.
    #[serde(default)]
    pub errors: bool,
    /// Programs to run, in this order.
    pub runs: Vec<Run>,
    /// The figures to compare.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// The curves to draw.
    #[serde(default)]
    pub curves: Vec<Curve>,
}

/// A program on an emulated machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The name by which figures refer to it.
    pub name: String,
    /// A machine of `lab list`.
    pub machine: String,
    /// Options of `lab run`.
    #[serde(default)]
    pub options: Vec<String>,
    /// Program and arguments; `{numapilot}` stands for numapilot's executable.
    pub command: Vec<String>,
}

/// A figure and its expected value.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The claim that it tests, as numbered in the documentation.
    pub claim: String,
    /// The name.
    pub name: String,
    /// The value, computed from the runs.
    pub value: Measured,
    /// The value from the source.
    pub expected: Value,
    /// The name of its own source.
    pub source: Option<String>,
    /// The figure is reproduced within this share of the expected value.
    pub tolerance: Option<f64>,
    /// The figure is reproduced between these values, instead of a tolerance.
    pub band: Option<[f64; 2]>,
    /// The direction is right between these values.
    pub direction: Option<[f64; 2]>,
    /// A known reason for a difference.
    pub remark: Option<String>,
}

/// A curve through the regions of a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// The claim that it tests.
    pub claim: String,
    /// The name.
    pub name: String,
    /// The run.
    pub run: String,
    /// Its regions, in order.
    pub regions: Vec<String>,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Where the curve should start to rise.
    pub knee: Option<Value>,
}

/// An axis of a curve.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Label, with the unit.
    pub name: String,
    /// The field of a region.
    pub field: String,
    /// Factor from the field's unit to that of the axis.
    #[serde(default = "one")]
    pub times: f64,
}

/// Where the value of a figure comes from.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Measured {
    /// A number from a run.
    Term(Term),
    /// The height of a curve.
    Reading(Reading),
}

/// The height of a curve between two of its points, which a straight line joins.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// The curve's name.
    pub curve: String,
    /// The place on its horizontal axis.
    pub at: f64,
}

/// A number or its source.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number as printed in the source.
    Number(f64),
    /// A number from a run or a machine.
    Term(Box<Term>),
}

/// The source of a number.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// The run whose counters have it ...
    pub run: Option<String>,
    /// ... and its region; the whole program if left out.
    pub region: Option<String>,
    /// The run whose program prints it as JSON.
    pub output: Option<String>,
    /// The machine whose timing model has it.
    pub machine: Option<String>,
    /// Path to the number: names and positions, separated by dots.
    pub field: String,
    /// A factor.
    #[serde(default = "one")]
    pub times: f64,
    /// The divisor.
    pub over: Option<Box<Term>>,
}

fn one() -> f64 {
    1.0
}

/// Why a study cannot be read.
#[derive(Debug, Error)]
pub enum StudyError {
    /// The text does not define a study.
    #[error("the study is damaged: {0}")]
    Syntax(#[from] SyntaxError),
    /// Two runs have the same name.
    #[error("the study has two runs named '{0}'; rename one")]
    Twice(String),
    /// A figure refers to a run that does not exist.
    #[error("'{figure}' is about run '{run}', which the study does not have")]
    NoRun {
        /// The figure or curve.
        figure: String,
        /// The run that it refers to.
        run: String,
    },
    /// A term needs exactly one source.
    #[error("'{0}' needs one of run, output and machine in each of its terms")]
    Origin(String),
    /// A figure needs a tolerance or a band.
    #[error("'{0}' needs a tolerance or a band")]
    Measure(String),
    /// A figure refers to a curve or a source that does not exist.
    #[error("'{figure}' refers to {kind} '{name}', which the study does not have")]
    Unknown {
        /// The figure.
        figure: String,
        /// What it refers to.
        kind: &'static str,
        /// Its name.
        name: String,
    },
}

impl Study {
    /// The built-in study.
    ///
    /// # Errors
    /// [`StudyError`] when the built-in definition is damaged.
    pub fn standard() -> Result<Self, StudyError> {
        Self::parse(STANDARD)
    }

    /// Parses a study.
    ///
    /// # Errors
    /// [`StudyError`].
    pub fn parse(text: &str) -> Result<Self, StudyError> {
        let study: Self = toml_text::parse(text)?;
        let mut names = BTreeSet::new();
        if let Some(run) = study.runs.iter().find(|run| !names.insert(&run.name)) {
            return Err(StudyError::Twice(run.name.clone()));
        }
        let known = |figure: &str, run: &String| match names.contains(run) {
            true => Ok(()),
            false => Err(StudyError::NoRun { figure: figure.to_owned(), run: run.clone() }),
        };
        for figure in &study.figures {
            for term in figure.terms() {
                let origins = [&term.run, &term.output, &term.machine];
                if origins.into_iter().flatten().count() != 1 {
                    return Err(StudyError::Origin(figure.name.clone()));
                }
                term.run.iter().chain(&term.output).try_for_each(|r| known(&figure.name, r))?;
            }
            let unknown = |kind, name: &String| {
                Err(StudyError::Unknown { figure: figure.name.clone(), kind, name: name.clone() })
            };
            if let Measured::Reading(reading) = &figure.value
                && !study.curves.iter().any(|curve| curve.name == reading.curve)
            {
                return unknown("curve", &reading.curve);
            }
            if let Some(source) = figure.source.as_ref().filter(|s| !study.sources.contains_key(*s))
            {
                return unknown("source", source);
            }
            if figure.tolerance.is_some() == figure.band.is_some() {
                return Err(StudyError::Measure(figure.name.clone()));
            }
        }
        study.curves.iter().try_for_each(|curve| known(&curve.name, &curve.run))?;
        Ok(study)
    }

    /// The machines that runs and terms refer to.
    #[must_use]
    pub fn machines(&self) -> BTreeSet<&str> {
        let knees = self.curves.iter().filter_map(|curve| match &curve.knee {
            Some(Value::Term(term)) => term.machine.as_deref(),
            _ => None,
        });
        let terms = self.figures.iter().flat_map(Figure::terms);
        let runs = self.runs.iter().map(|run| run.machine.as_str());
        runs.chain(terms.filter_map(|term| term.machine.as_deref())).chain(knees).collect()
    }
}

impl Figure {
    /// All terms of the value.
    fn terms(&self) -> Vec<&Term> {
        let mut terms = Vec::new();
        if let Measured::Term(term) = &self.value {
            terms.push(term);
        }
        if let Value::Term(term) = &self.expected {
            terms.push(term);
        }
        let mut seen = 0;
        while let Some(term) = terms.get(seen) {
            if let Some(over) = term.over.as_deref() {
                terms.push(over);
            }
            seen += 1;
        }
        terms
    }
}

#[cfg(test)]
mod tests {
    use numapilot_topology::description::Description;

    use super::*;

    #[test]
    fn the_study_of_the_binary_is_whole() {
        let study = Study::standard().unwrap();
        assert!(!study.runs.is_empty() && !study.figures.is_empty());
    }

    #[test]
    fn the_held_out_study_and_its_machines_are_whole() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
        let read = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).unwrap();
        let study = Study::parse(&read("studies/held-out.toml")).unwrap();
        assert!(study.errors && study.figures.iter().all(|figure| figure.source.is_some()));
        let machines = study.machines();
        for machine in &machines {
            let description = Description::parse(&read(machine)).unwrap();
            assert!(description.lab.is_some(), "{machine}");
        }
        let files = std::fs::read_dir(format!("{root}/studies/held-out")).unwrap();
        assert_eq!(files.count(), machines.len(), "each description is used");
    }

    #[test]
    fn a_damaged_study_says_where() {
        let head = "title = ''\nsource = ''\n";
        let run = "[[runs]]\nname = 'a'\nmachine = 'm'\ncommand = []\n";
        let error = |rest: &str| Study::parse(&format!("{head}{rest}")).unwrap_err().to_string();
        assert!(error("").contains("runs"));
        assert!(error(&format!("{run}{run}")).contains("two runs named 'a'"));
        let figure = |value: &str, measure: &str| {
            format!(
                "{run}[[figures]]\nclaim = 'A'\nname = 'f'\nexpected = 1.0\nvalue = {value}\n{measure}\n"
            )
        };
        let band = "band = [0.0, 1.0]";
        assert!(error(&figure("{ run = 'b', field = 'x' }", band)).contains("run 'b'"));
        assert!(error(&figure("{ field = 'x' }", band)).contains("one of run, output"));
        let over = "{ run = 'a', field = 'x', over = { output = 'c', field = 'y' } }";
        assert!(error(&figure(over, band)).contains("run 'c'"));
        assert!(error(&figure("{ run = 'a', field = 'x' }", "")).contains("a tolerance or a band"));
        assert!(error(&figure("{ curve = 'c', at = 1.0 }", band)).contains("refers to curve 'c'"));
        let sourced = format!("{band}\nsource = 's'");
        assert!(error(&figure("{ run = 'a', field = 'x' }", &sourced)).contains("to source 's'"));
    }
}
