//! `numapilot study report`: results of `study run` as a page, and as CSV.

mod cells;
mod csv;
mod page;
mod score;
mod sensitivity;
mod strip;
mod svg;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use numapilot_cli_kit::file::{self, Existing};
use numapilot_cli_kit::terminal::{Terminal, plural};
use numapilot_study::experiment::{ClaimResult, Experiment, Judged, Past, ScaleName};
use numapilot_study::verdict::Verdict;

use super::RESULTS;
use sensitivity::Sensitivity;

/// Arguments of `study report`.
#[derive(clap::Args)]
#[command(after_help = "\
The page loads nothing from the network. Next to it are the results that it shows, as lines of \
JSON (page.jsonl) and as a table (page.csv).\n\n\
Example:\n  numapilot study run --all --output results.jsonl\n  \
numapilot study report results.jsonl --output page.html")]
pub struct Args {
    /// Results of `study run`.
    #[arg(value_name = "FILE", default_value = RESULTS)]
    results: Vec<PathBuf>,
    /// The page.
    #[arg(short, long, value_name = "FILE", default_value = "numapilot-report.html")]
    output: PathBuf,
}

/// An experiment at one scale, with its verdicts.
pub struct Section {
    pub scale: ScaleName,
    pub experiment: Experiment,
    pub judged: Judged,
    /// The verdicts with free parameters of the model varied.
    pub sensitivity: Sensitivity,
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let mut past = Past::default();
        for path in &self.results {
            past.append(Past::read(path)?);
        }
        if past.experiments.is_empty() {
            let names: Vec<String> = self.results.iter().map(|p| p.display().to_string()).collect();
            bail!("{} has no results; make some with `numapilot study run`", names.join(", "));
        }
        let judge = |(scale, experiment): &(ScaleName, Experiment)| Section {
            scale: *scale,
            judged: experiment.judge(*scale, &past.trials),
            sensitivity: Sensitivity::of(experiment, *scale, &past.trials),
            experiment: experiment.clone(),
        };
        let mut sections: Vec<Section> = past.experiments.iter().map(judge).collect();
        sections.sort_by_key(key);
        let beside = |extension: &str| self.output.with_extension(extension);
        let lines: Result<Vec<String>, _> =
            past.records().iter().map(serde_json::to_string).collect();
        file::put(&self.output, &page::page(&past, &sections)?, Existing::Replace)?;
        file::put(&beside("csv"), &csv::table(&past), Existing::Replace)?;
        file::put(&beside("jsonl"), &(lines?.join("\n") + "\n"), Existing::Replace)?;
        writeln!(terminal.out(), "{}", self.output.display())?;
        let counts = counts(&sections);
        let counts: Vec<String> = counts.iter().map(|(v, count)| format!("{count} {v}")).collect();
        let experiments = plural(sections.len(), "experiment");
        writeln!(terminal.err(), "numapilot: {experiments}, comparisons: {}", counts.join(", "))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The number of comparisons with the papers for each verdict, best first. Verdicts that do not
/// occur, and claims about numapilot alone, are left out.
pub fn counts<'a>(
    sections: impl IntoIterator<Item = &'a Section> + Clone,
) -> Vec<(Verdict, usize)> {
    let claims = || sections.clone().into_iter().flat_map(comparisons);
    let of = |verdict| (verdict, claims().filter(|claim| claim.verdict == verdict).count());
    Verdict::ALL.into_iter().map(of).filter(|(_, count)| *count > 0).collect()
}

/// The claims of an experiment that compare with its paper.
pub fn comparisons(section: &Section) -> impl Iterator<Item = &ClaimResult> {
    let is_papers = |c: &&ClaimResult| c.paper.is_some() || c.verdict == Verdict::Shown;
    section.judged.claims.iter().filter(is_papers)
}

/// The order on the page: A2 before A10.
fn key(section: &Section) -> (String, u32, ScaleName) {
    let id = &section.experiment.id;
    let digits = id.find(|c: char| c.is_ascii_digit()).unwrap_or(id.len());
    (id[..digits].to_owned(), id[digits..].parse().unwrap_or(0), section.scale)
}
