//! The description of a study, which is data: `studies/*.toml`.

use std::collections::BTreeSet;

use serde::Deserialize;
use thiserror::Error;

/// The study that the binary carries.
const STANDARD: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../studies/lab.toml"));

/// A study.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// What it shows.
    pub title: String,
    /// Where the expected values are from.
    pub source: String,
    /// Programs to run, in this order.
    pub runs: Vec<Run>,
    /// What is compared.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// What is drawn.
    #[serde(default)]
    pub curves: Vec<Curve>,
}

/// A program on an emulated machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// What figures call it.
    pub name: String,
    /// A machine of `lab list`.
    pub machine: String,
    /// Options of `lab run`.
    #[serde(default)]
    pub options: Vec<String>,
    /// Program and arguments; `{numapilot}` is numapilot itself.
    pub command: Vec<String>,
}

/// A figure and what it should be.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The claim it belongs to, as docs number them.
    pub claim: String,
    /// What it is.
    pub name: String,
    /// How it comes from the runs.
    pub value: Term,
    /// What the source says.
    pub expected: Value,
    /// Share of the expected value by which it may be off, to be reproduced.
    pub tolerance: Option<f64>,
    /// Between these it is reproduced; instead of a tolerance.
    pub band: Option<[f64; 2]>,
    /// Between these it has at least the right direction.
    pub direction: Option<[f64; 2]>,
    /// What is known of a difference.
    pub remark: Option<String>,
}

/// Points of several regions of one run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// The claim it belongs to.
    pub claim: String,
    /// What it shows.
    pub name: String,
    /// The run.
    pub run: String,
    /// Its regions, in order.
    pub regions: Vec<String>,
    /// Name, with the unit, and value of each axis.
    pub x: Axis,
    /// The same upwards.
    pub y: Axis,
    /// Where the curve should turn upwards.
    pub knee: Option<Value>,
}

/// An axis of a curve.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// What it shows, with the unit.
    pub name: String,
    /// Field of a region.
    pub field: String,
    /// Factor from the field's unit to the axis's.
    #[serde(default = "one")]
    pub times: f64,
}

/// A number, or where one comes from.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// As the source prints it.
    Number(f64),
    /// From a run or a machine.
    Term(Box<Term>),
}

/// Where a number comes from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// What was counted in this run ...
    pub run: Option<String>,
    /// ... in this region; in the whole program when left out.
    pub region: Option<String>,
    /// What the program of this run printed as JSON.
    pub output: Option<String>,
    /// The timing model of this machine.
    pub machine: Option<String>,
    /// Path to the number: names and positions with dots between.
    pub field: String,
    /// Factor.
    #[serde(default = "one")]
    pub times: f64,
    /// What it is divided by.
    pub over: Option<Box<Term>>,
}

fn one() -> f64 {
    1.0
}

/// Why a study cannot be read.
#[derive(Debug, Error)]
pub enum StudyError {
    /// It is no description of a study.
    #[error("the study is damaged: {0}")]
    Syntax(toml::de::Error),
    /// A name means two runs.
    #[error("the study has two runs named '{0}'; rename one")]
    Twice(String),
    /// A figure of nothing.
    #[error("'{figure}' is about run '{run}', which the study does not have")]
    NoRun {
        /// The figure or curve.
        figure: String,
        /// What it names.
        run: String,
    },
    /// A term must have one origin.
    #[error("'{0}' needs one of run, output and machine in each of its terms")]
    Origin(String),
    /// A figure needs a measure.
    #[error("'{0}' needs a tolerance or a band")]
    Measure(String),
}

impl Study {
    /// The study that the binary carries.
    ///
    /// # Errors
    /// [`StudyError`] when it was built from a damaged one.
    pub fn standard() -> Result<Self, StudyError> {
        Self::parse(STANDARD)
    }

    /// Reads a study.
    ///
    /// # Errors
    /// [`StudyError`].
    pub fn parse(text: &str) -> Result<Self, StudyError> {
        let study: Self = toml::from_str(text).map_err(StudyError::Syntax)?;
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
            if figure.tolerance.is_some() == figure.band.is_some() {
                return Err(StudyError::Measure(figure.name.clone()));
            }
        }
        study.curves.iter().try_for_each(|curve| known(&curve.name, &curve.run))?;
        Ok(study)
    }

    /// Machines that runs and terms are about.
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
    /// All terms it is made of.
    fn terms(&self) -> Vec<&Term> {
        let mut terms = vec![&self.value];
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
    use super::*;

    #[test]
    fn the_study_of_the_binary_is_whole() {
        let study = Study::standard().unwrap();
        assert!(!study.runs.is_empty() && !study.figures.is_empty());
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
    }
}
