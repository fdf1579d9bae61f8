//! The verdicts as tables.

use std::io::{self, Write};

use numapilot_cli_kit::terminal::{BAD, BOLD, DIM, GOOD, Terminal, WARN, plural, table};
use numapilot_study::experiment::{ClaimResult, Estimate, Host, Judged, PaperValue};
use numapilot_study::verdict::Verdict;

use super::entry::Entry;

/// Prints the machine and its noise to standard error.
pub fn host(terminal: &Terminal, host: &Host) -> io::Result<()> {
    let load = host.load.map_or(String::new(), |load| format!(", load {load:.1}"));
    writeln!(
        terminal.err(),
        "numapilot: noise of this host {:.1} %{load}, {}, {}",
        host.noise * 100.0,
        plural(host.cpus, "CPU"),
        plural(host.nodes, "node")
    )
}

/// Prints the claims of all experiments; experiments that were not reached are only named.
pub fn experiments(terminal: &Terminal, entries: &[Entry<'_, Judged>]) -> io::Result<()> {
    let none = |e: &&Entry<'_, Judged>| {
        let mut verdicts = e.details.claims.iter().map(|claim| claim.verdict);
        !e.details.claims.is_empty() && verdicts.all(|verdict| verdict == Verdict::NotReached)
    };
    for entry in entries.iter().filter(|entry| !none(entry)) {
        experiment(terminal, entry)?;
    }
    let ids: Vec<&str> = entries.iter().filter(none).map(|entry| entry.id).collect();
    if !ids.is_empty() {
        writeln!(terminal.out(), "not reached: {}; go on with --resume", ids.join(", "))?;
    }
    Ok(())
}

fn experiment(terminal: &Terminal, entry: &Entry<'_, Judged>) -> io::Result<()> {
    let mut out = terminal.out();
    let Entry { id, title, paper: source, place, details: judged, .. } = entry;
    let style = style(judged.verdict);
    writeln!(
        out,
        "{BOLD}{id}  {title}{BOLD:#}  {DIM}({source}, {place}){DIM:#}  {style}{}{style:#}",
        judged.verdict
    )?;
    let mut rows = table(&["claim", "paper", "here", "95 % interval", "verdict"], &[2]);
    for claim in &judged.claims {
        let (here, interval) = match claim.values.as_slice() {
            [(_, one)] => (short(one.value), span(one)),
            _ => (String::new(), String::new()),
        };
        rows.add_row([claim.text.clone(), paper(claim), here, interval, claim.verdict.to_string()]);
    }
    writeln!(out, "{}", rows.trim_fmt())?;
    for claim in &judged.claims {
        if claim.values.len() > 1 {
            let values = claim.values.iter().map(|(name, e)| format!("{name} {}", short(e.value)));
            writeln!(out, " {}: {}", claim.text, values.collect::<Vec<_>>().join(" > "))?;
        }
    }
    let remarks = || judged.claims.iter().filter_map(|claim| claim.remark.as_ref());
    for (index, remark) in remarks().enumerate() {
        if remarks().take(index).any(|earlier| earlier == remark) {
            continue;
        }
        // A remark that concerns several claims is printed once.
        let of = |claim: &&ClaimResult| claim.remark.as_ref() == Some(remark);
        let texts: Vec<&str> = judged.claims.iter().filter(of).map(|c| c.text.as_str()).collect();
        match texts.as_slice() {
            [one] => writeln!(out, " {DIM}{one}: {remark}{DIM:#}")?,
            _ => writeln!(out, " {DIM}{remark}{DIM:#}")?,
        }
    }
    writeln!(out)
}

/// The colour of a verdict.
fn style(verdict: Verdict) -> anstyle::Style {
    match verdict {
        Verdict::Reproduced => GOOD,
        Verdict::NotReproduced | Verdict::Failed => BAD,
        Verdict::DirectionOnly | Verdict::Undecided => WARN,
        Verdict::NotRunHere | Verdict::NotReached | Verdict::Shown => DIM,
    }
}

/// The paper's value as text.
pub fn paper(claim: &ClaimResult) -> String {
    match &claim.paper {
        Some(PaperValue::Number(number)) => short(*number),
        Some(PaperValue::Text(text)) => text.clone(),
        None => String::new(),
    }
}

/// An interval as text, as in `0.91 to 1.10`.
pub fn span(estimate: &Estimate) -> String {
    let words = |[low, high]: [f64; 2]| format!("{} to {}", short(low), short(high));
    estimate.interval.map_or("-".to_owned(), words)
}

/// Rounds to three significant digits.
pub fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = value.abs().log10().floor() as i32;
    match digits {
        -4..=5 => {
            let decimals = usize::try_from(2 - digits).unwrap_or(0);
            format!("{value:.decimals$}")
        }
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        let shown = [0.0, 0.5, 1.234, 12.34, 123.4, 123_456.0, 0.001_234, 1.5e-7, 2e9].map(short);
        let expected =
            ["0", "0.500", "1.23", "12.3", "123", "123456", "0.00123", "1.50e-7", "2.00e9"];
        assert_eq!(shown, expected);
    }
}
