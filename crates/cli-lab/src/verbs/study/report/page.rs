//! The page: the score, the machines, and a section for every experiment.

use std::fmt::Write;

use numapilot_cli_kit::date::moment;
use numapilot_cli_kit::svg::{STYLE, escape};
use numapilot_cli_kit::terminal;
use numapilot_study::experiment::{ClaimResult, Host, Outcome, Past};

use super::cells::{anchor, badge, here};
use super::sensitivity::Dependence;
use super::{Section, score, strip, svg};
use crate::verbs::study::{paper, span};

/// Writes the whole page.
///
/// # Errors
/// None in practice, because writing to memory cannot fail.
pub fn page(past: &Past, sections: &[Section]) -> Result<String, std::fmt::Error> {
    let mut page = String::new();
    write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>numapilot: the papers' claims, run here</title>\n<style>\n{}{STYLE}\n</style>\n</head>\n<body>\n\
         <h1>The papers' claims, run here</h1>\n",
        include_str!("page.css")
    )?;
    score::write(&mut page, past, sections)?;
    hosts(&mut page, past)?;
    for section in sections {
        experiment(&mut page, section)?;
    }
    page.push_str("</body>\n</html>\n");
    Ok(page)
}

fn hosts(page: &mut String, past: &Past) -> std::fmt::Result {
    let runs = past.trials.iter().filter(|t| matches!(t.outcome, Outcome::Values(_))).count();
    let hours: f64 = past.trials.iter().map(|trial| trial.seconds).sum();
    writeln!(
        page,
        "<h2>What ran where</h2>\n<p>{runs} runs in {}.</p>\n<table><thead><tr><th>runs begun</th><th>host</th>\
         <th>kernel</th><th>noise</th><th>load</th></tr></thead><tbody>",
        terminal::left_time(hours)
    )?;
    let mut rest: Vec<&Host> = past.hosts.iter().collect();
    while let Some(first) = rest.first().copied() {
        let (same, others): (Vec<&Host>, Vec<&Host>) =
            rest.into_iter().partition(|host| is_same(first, host));
        row(page, first, &same)?;
        rest = others;
    }
    writeln!(
        page,
        "</tbody></table>\n<p class=\"quiet\">Noise: the spread of the time of a fixed computation, \
         relative to its median, before the first run of a study. Emulated machines ran on this host; their time is simulated.</p>"
    )
}

/// Whether two hosts differ in nothing but the time of measurement.
fn is_same(one: &Host, other: &Host) -> bool {
    let moment = |host: &Host| Host { time: 0, load: None, noise: 0.0, ..host.clone() };
    moment(one) == moment(other)
}

/// A machine, with its state when the studies began.
fn row(page: &mut String, host: &Host, begun: &[&Host]) -> std::fmt::Result {
    let processor = host.processor.as_deref().unwrap_or("unknown processor");
    let last = begun.iter().map(|host| host.time).max().filter(|last| *last > host.time);
    let noise = span_of(begun.iter().map(|host| host.noise * 100.0));
    let load = span_of(begun.iter().filter_map(|host| host.load));
    let held: String = host.held_settings.iter().map(|held| format!("; {held}")).collect();
    writeln!(
        page,
        "<tr><td>{}{}</td><td>{}, {}, {}, {}; numapilot {}{}</td><td data-label=\"kernel\">{}</td>\
         <td data-label=\"noise\">{} %</td><td data-label=\"load\">{}</td></tr>",
        moment(host.time),
        last.map_or(String::new(), |last| format!(" to {}", moment(last))),
        escape(processor),
        terminal::plural(host.cpus, "CPU"),
        terminal::plural(host.nodes, "node"),
        terminal::bytes(host.memory_bytes),
        escape(&host.version),
        escape(&held),
        escape(&host.kernel),
        noise.unwrap_or_default(),
        load.unwrap_or_else(|| "unknown".to_owned())
    )
}

/// The minimum and maximum, as in `0.7 to 1.2`, or the single value.
fn span_of(values: impl Iterator<Item = f64> + Clone) -> Option<String> {
    let (least, most) = (values.clone().reduce(f64::min)?, values.reduce(f64::max)?);
    let (least, most) = (format!("{least:.1}"), format!("{most:.1}"));
    Some(if least == most { least } else { format!("{least} to {most}") })
}

fn experiment(page: &mut String, section: &Section) -> std::fmt::Result {
    let (e, judged) = (&section.experiment, &section.judged);
    writeln!(
        page,
        "<section>\n<h2 id=\"{}\">{} {}</h2>\n<p>{} <span class=\"quiet\">{}, {}; {}, {} scale</span></p>\n\
         <p><b>Paper:</b> {}</p>\n<p><b>Here:</b> {}</p>",
        anchor(section),
        escape(&e.id),
        escape(&e.title),
        badge(judged.verdict),
        escape(&e.paper),
        escape(&e.place),
        escape(&e.machine),
        section.scale,
        escape(&e.says),
        escape(&e.differs_at(section.scale)),
    )?;
    let pictures = svg::draw(e, judged);
    if !pictures.is_empty() {
        writeln!(page, "<figure>\n{}</figure>", pictures.concat())?;
    }
    writeln!(
        page,
        "<table class=\"claims\"><thead><tr><th>claim</th><th>paper</th><th>here</th><th>95 % interval</th><th></th>\
         <th>verdict</th></tr></thead><tbody>"
    )?;
    for claim in &judged.claims {
        line(page, claim, section.sensitivity.dependence(claim).as_ref())?;
    }
    writeln!(
        page,
        "</tbody></table>\n<p class=\"quiet\">Repeat it:</p>\n<pre>numapilot study run {} --scale {}</pre>\n\
         <details><summary class=\"quiet\">The {} commands</summary>\n<pre>",
        escape(&e.id),
        section.scale,
        judged.points.len()
    )?;
    for point in &judged.points {
        writeln!(page, "{}", escape(&point.command))?;
    }
    writeln!(page, "</pre></details>\n</section>")
}

fn line(
    page: &mut String,
    result: &ClaimResult,
    dependence: Option<&Dependence>,
) -> std::fmt::Result {
    let interval = match result.values.as_slice() {
        [(_, one)] => format!("{} <span class=\"quiet\">n={}</span>", span(one), one.n),
        _ => String::new(),
    };
    let here = here(result);
    let remark = |r: &String| {
        format!("<tr class=\"remark\"><td colspan=\"6\" class=\"quiet\">{}</td></tr>\n", escape(r))
    };
    let dependence = dependence.map(Dependence::text);
    let remarks: Vec<String> = result.remark.iter().chain(&dependence).map(remark).collect();
    writeln!(
        page,
        "<tr{}><td>{}</td><td data-label=\"paper\">{}</td><td class=\"{}\" data-label=\"here\">{here}</td>\
         <td class=\"number\" data-label=\"95 % interval\">{interval}</td><td>{}</td><td>{}</td></tr>\n{}",
        if remarks.is_empty() { "" } else { " class=\"remarked\"" },
        escape(&result.text),
        escape(&paper(result)),
        if result.values.len() == 1 { "number" } else { "" },
        strip::draw(result).unwrap_or_default(),
        badge(result.verdict),
        remarks.concat()
    )
}
