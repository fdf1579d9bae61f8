//! Makes the runs of a lab study, and compares their results.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, bail};
use numapilot_cli_kit::file::{self, Existing};
use numapilot_cli_kit::interruption;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_lab::Shape;
use numapilot_lab_model::Model;
use numapilot_study::lab::{Evidence, Judged, Run, Study};
use numapilot_study::verdict::Verdict;
use numapilot_topology::bounded;
use numapilot_topology::description::named;
use serde::Serialize;

use super::super::LONGEST;
use super::args::Args;
use super::{markdown, svg, text};
use crate::{child, programs};

/// Placeholder for numapilot's executable in a study's commands.
const SELF: &str = "{numapilot}";

/// `study --json`.
#[derive(Serialize)]
struct Json<'a> {
    title: &'a str,
    source: &'a str,
    sources: &'a BTreeMap<String, String>,
    runs: Vec<RunJson<'a>>,
    #[serde(flatten)]
    judged: &'a Judged,
}

/// A run, with the command that repeats it by hand.
#[derive(Serialize)]
struct RunJson<'a> {
    name: &'a str,
    command: String,
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let study = match &self.study {
            Some(path) => Study::parse(&read(path)?)
                .with_context(|| format!("cannot use {}", path.display()))?,
            None => Study::standard()?,
        };
        for name in &self.only {
            if !study.runs.iter().any(|run| run.name == *name) {
                bail!("the study has no run '{name}'; it has {}", names(&study));
            }
        }
        if let Some(path) = &self.svg {
            if study.curves.is_empty() && !study.errors {
                bail!("the study has no curve to draw; leave out --svg");
            }
            file::check(path, Existing::Replace)?;
        }
        if let Some(directory) = &self.keep {
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
        }
        let interrupted = interruption::flag()?;
        let mut evidence = Evidence::default();
        for machine in study.machines() {
            let (name, description) = named(machine)?;
            let model =
                Model::from_description(&description, &Shape::new(&name, &description)?.layout())?;
            evidence.machines.insert(machine.to_owned(), serde_json::to_value(model)?);
        }
        let chosen = |run: &&Run| self.only.is_empty() || self.only.contains(&run.name);
        let runs: Vec<&Run> = study.runs.iter().filter(chosen).collect();
        for (i, run) in runs.iter().enumerate() {
            if terminal.is_interactive() {
                writeln!(terminal.err(), "{} of {}: {}", i + 1, runs.len(), run.name)?;
            }
            let made = self.make(run, &mut evidence, &interrupted);
            if interrupted.load(Relaxed) {
                return Ok(interruption::status());
            }
            made.with_context(|| format!("run {}", run.name))?;
        }
        let judged = study.judge(&evidence);
        if let Some(path) = &self.svg {
            let picture = match judged.curves.first() {
                _ if study.errors => svg::distribution(&study.title, &judged.errors),
                Some(curve) => svg::draw(curve),
                None => bail!("the study has no curve to draw; leave out --svg"),
            };
            file::put(path, &picture, Existing::Replace)?;
        }
        if self.json {
            let commands = study.runs.iter().map(|run| RunJson {
                name: &run.name,
                command: format!("numapilot {}", arguments(run, "numapilot").join(" ")),
            });
            terminal.json(&Json {
                title: &study.title,
                source: &study.source,
                sources: &study.sources,
                runs: commands.collect(),
                judged: &judged,
            })?;
        } else if self.markdown {
            terminal.out().write_all(markdown::tables(&study, &judged).as_bytes())?;
        } else {
            terminal.out().write_all(text::tables(&study, &judged).as_bytes())?;
        }
        let wrong = judged.figures.iter().any(|f| f.verdict == Verdict::NotReproduced)
            || judged.curves.iter().any(|c| c.verdict == Verdict::NotReproduced);
        Ok(if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Makes a run, or reads its kept result.
    fn make(
        &self,
        run: &Run,
        evidence: &mut Evidence,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<()> {
        let kept = |what: &str| Some(self.keep.as_ref()?.join(format!("{}-{what}", run.name)));
        let paths = kept("counted.json").zip(kept("printed.txt"));
        let (counted, printed) = match &paths {
            Some((counted, printed)) if counted.is_file() && printed.is_file() => {
                (read(counted)?, read(printed)?)
            }
            _ => {
                let made = one(run, interrupted)?;
                if let Some((counted, printed)) = &paths {
                    file::put(printed, &made.1, Existing::Replace)?;
                    file::put(counted, &made.0, Existing::Replace)?;
                }
                made
            }
        };
        let counted = serde_json::from_str(&counted).context("the kept figures are damaged")?;
        evidence.counted.insert(run.name.clone(), counted);
        // The JSON may follow other output of the program.
        let json = printed.find("\n{").map_or(printed.as_str(), |at| &printed[at..]);
        if let Ok(json) = serde_json::from_str(json) {
            evidence.printed.insert(run.name.clone(), json);
        }
        Ok(())
    }
}

fn names(study: &Study) -> String {
    let names: Vec<&str> = study.runs.iter().map(|run| run.name.as_str()).collect();
    names.join(", ")
}

fn read(path: &Path) -> anyhow::Result<String> {
    bounded::read(path, LONGEST).map_err(|error| file::not_read(path, error))
}

/// The arguments after `numapilot` that make a run.
fn arguments(run: &Run, own: &str) -> Vec<String> {
    let mut all: Vec<String> = ["lab", "run", "--machine", &run.machine].map(str::to_owned).into();
    all.extend(run.options.iter().cloned());
    all.push("--".to_owned());
    all.extend(run.command.iter().map(|word| word.replace(SELF, own)));
    all
}

/// Makes a run, and returns its figures as JSON and the program's output.
fn one(run: &Run, interrupted: &AtomicBool) -> anyhow::Result<(String, String)> {
    let program = programs::numapilot_lab()?;
    let directory =
        numapilot_place::scratch_directory("study").context("cannot make a temporary directory")?;
    let counted = directory.path().join("counted.json");
    let mut all = arguments(run, &program.to_string_lossy());
    let to = ["--json", "--output", &counted.to_string_lossy()].map(str::to_owned);
    all.splice(2..2, to);
    let (status, printed) = child::output(program, all, interrupted)?;
    if !status.success() {
        bail!("the program failed ({status}); the lab's message is above");
    }
    let printed = String::from_utf8(printed).context("the program's output is not UTF-8")?;
    Ok((read(&counted)?, printed))
}
