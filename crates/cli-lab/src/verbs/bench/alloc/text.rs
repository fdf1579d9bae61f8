//! Prints the tables: a test in each row, an allocator in each column.

use std::io::Write;
use std::num::NonZeroUsize;

use numapilot_cli_kit::terminal::{BAD, BOLD, DIM, Terminal, WARN, plural, table, trimmed};
use numapilot_study::results::{Cell, Mean, Measure, Ratios, Results};

/// Names of the last rows of ratios.
const MEAN: &str = "geometric mean";
const WITHOUT_EXTREMES: &str = "without extremes";

/// Prints the tables and the notes.
pub fn results(
    terminal: &Terminal,
    results: &Results,
    threads: NonZeroUsize,
    rounds: u32,
) -> anyhow::Result<()> {
    let mut out = terminal.out();
    writeln!(
        out,
        "Ratios to {BOLD}{}{BOLD:#}, below 1 is better; {}, {}\n",
        results.reference,
        plural(threads.get(), "thread"),
        plural(rounds, "round"),
    )?;
    for (title, measure) in [
        ("CPU time", Measure::Cpu),
        ("Least CPU time of all rounds", Measure::CpuMinimum),
        ("Wall time", Measure::Wall),
        ("Peak RSS", Measure::Rss),
    ] {
        for columns in blocks(results, terminal.width()) {
            writeln!(out, "{BOLD}{title}{BOLD:#}")?;
            writeln!(out, "{}\n", ratios(results, measure, &columns))?;
        }
    }
    notes(&mut out, results)
}

/// Distributes the allocators over as many tables as the width of the terminal requires.
pub(super) fn blocks(results: &Results, width: usize) -> Vec<Vec<usize>> {
    let names = || results.tests.iter().map(|row| row.test.chars().count());
    // comfy-table puts a space on either side of a cell.
    let first = names().chain([MEAN.len(), WITHOUT_EXTREMES.len()]).max().unwrap_or(0) + 2;
    let (mut blocks, mut used) = (vec![Vec::new()], first);
    for (index, allocator) in results.allocators.iter().enumerate() {
        let need = allocator.name.chars().count().max("failed".len()) + 2;
        if used + need > width && blocks.last().is_some_and(|block| !block.is_empty()) {
            blocks.push(Vec::new());
            used = first;
        }
        used += need;
        if let Some(block) = blocks.last_mut() {
            block.push(index);
        }
    }
    blocks
}

fn ratios(results: &Results, measure: Measure, columns: &[usize]) -> String {
    let names = columns.iter().map(|&c| results.allocators[c].name.as_str());
    let header: Vec<&str> = std::iter::once("test").chain(names).collect();
    let mut rows = table(&header, &(1..=columns.len()).collect::<Vec<_>>());
    for row in &results.tests {
        let cells = columns.iter().map(|&c| ratio(&row.results[c], measure));
        rows.add_row(std::iter::once(row.test.clone()).chain(cells));
    }
    let mut add_mean = |name: &str, of: fn(&Mean) -> Option<Ratios>| {
        let ratios = columns.iter().map(|&c| of(&results.geometric_means[c]));
        let cells = ratios.map(|ratios| {
            ratios.map_or("-".to_owned(), |ratios| format!("{:.3}", ratios.of(measure)))
        });
        rows.add_row(std::iter::once(name.to_owned()).chain(cells));
    };
    add_mean(MEAN, |mean| mean.ratios);
    if results.geometric_means.iter().any(|mean| mean.ratios_without_extremes.is_some()) {
        add_mean(WITHOUT_EXTREMES, |mean| mean.ratios_without_extremes);
    }
    trimmed(&rows)
}

fn ratio(cell: &Cell, measure: Measure) -> String {
    match (&cell.ratios, &cell.failure) {
        (Some(ratios), _) => format!("{:.2}", ratios.of(measure)),
        (None, Some(_)) => "failed".to_owned(),
        (None, None) => "-".to_owned(),
    }
}

/// Prints failures, missing tests and other remarks.
pub(super) fn notes(out: &mut impl Write, results: &Results) -> anyhow::Result<()> {
    let all = results.geometric_means.iter().map(|mean| mean.tests).max().unwrap_or(0);
    for mean in results.geometric_means.iter().filter(|mean| mean.tests < all) {
        let (name, tests) = (&mean.allocator, mean.tests);
        writeln!(out, "{WARN}{name}: its mean is over {tests} of {all} tests{WARN:#}")?;
    }
    for row in &results.tests {
        for cell in &row.results {
            let (test, name) = (&row.test, &cell.allocator);
            if let Some(failure) = &cell.failure {
                let failure = failure.lines().next().unwrap_or_default();
                writeln!(out, "{BAD}{test} under {name} failed{BAD:#}: {failure}")?;
            }
            if cell.unverified_runs > 0 {
                writeln!(
                    out,
                    "{WARN}{test} under {name}{WARN:#}: {} of {} runs ended before the allocator \
                     could be seen in the program",
                    cell.unverified_runs, cell.runs
                )?;
            }
        }
    }
    for missing in &results.missing {
        writeln!(out, "{DIM}{} was not run: {}{DIM:#}", missing.test, missing.reason)?;
    }
    if results.tests.iter().any(|row| row.is_per_work) {
        let tests = results.tests.iter().filter(|row| row.is_per_work);
        let names: Vec<&str> = tests.map(|row| row.test.as_str()).collect();
        writeln!(out, "{DIM}Times per unit of work: {}{DIM:#}", names.join(", "))?;
    }
    if results.is_interrupted {
        writeln!(out, "{WARN}Interrupted: not all rounds were made.{WARN:#}")?;
    }
    Ok(())
}
