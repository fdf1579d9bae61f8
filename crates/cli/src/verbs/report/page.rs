//! The page: a scorecard, the machines, a section for every experiment.

use std::fmt::Write;

use numapilot_study::experiment::{ClaimResult, Host, Outcome, Past};
use numapilot_study::verdict::Verdict;

use super::{Section, picture, strip, time::moment};
use crate::svg::{STYLE, escape};
use crate::terminal;
use crate::verbs::study::{paper, short, span};

/// The whole page.
///
/// # Errors
/// None in truth: writing to memory.
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
    scorecard(&mut page, sections)?;
    hosts(&mut page, past)?;
    for section in sections {
        experiment(&mut page, section)?;
    }
    page.push_str("</body>\n</html>\n");
    Ok(page)
}

fn scorecard(page: &mut String, sections: &[Section]) -> std::fmt::Result {
    let claims = || sections.iter().flat_map(|section| &section.judged.claims);
    writeln!(page, "<ul class=\"counts\">")?;
    for verdict in Verdict::ALL {
        let count = claims().filter(|claim| claim.verdict == verdict).count();
        if count > 0 {
            writeln!(page, "<li><b class=\"{}\">{count}</b>{verdict}</li>", class(verdict))?;
        }
    }
    writeln!(
        page,
        "</ul>\n<p class=\"quiet\">Comparisons with the papers, by verdict. Every verdict is computed \
         from the runs: the median and its 95 % bootstrap interval against the rule of the experiment. An \
         experiment's verdict is its weakest.</p>\n<table><thead><tr><th>id</th><th>experiment</th>\
         <th>paper</th><th>ran on</th><th>verdict</th></tr></thead><tbody>"
    )?;
    for section in sections {
        let e = &section.experiment;
        writeln!(
            page,
            "<tr><td><a href=\"#{}\">{}</a></td><td>{}</td><td>{}, {}</td><td>{}, {}</td><td>{}</td></tr>",
            anchor(section),
            escape(&e.id),
            escape(&e.title),
            escape(&e.paper),
            escape(&e.place),
            escape(&e.machine),
            section.scale,
            badge(section.judged.verdict)
        )?;
    }
    writeln!(page, "</tbody></table>")
}

fn hosts(page: &mut String, past: &Past) -> std::fmt::Result {
    let runs = past.trials.iter().filter(|t| matches!(t.outcome, Outcome::Values(_))).count();
    let hours: f64 = past.trials.iter().map(|trial| trial.seconds).sum();
    writeln!(
        page,
        "<h2>What ran where</h2>\n<p>{runs} runs in {}.</p>\n<table><thead><tr><th>begun</th><th>host</th>\
         <th>kernel</th><th>noise</th><th>load</th></tr></thead><tbody>",
        terminal::left_time(hours)
    )?;
    for host in &past.hosts {
        row(page, host)?;
    }
    writeln!(
        page,
        "</tbody></table>\n<p class=\"quiet\">Noise: spread of the time of one and the same computation, \
         relative to its median, before the first run. Emulated machines are on this host; their time is simulated.</p>"
    )
}

fn row(page: &mut String, host: &Host) -> std::fmt::Result {
    let processor = host.processor.as_deref().unwrap_or("unknown processor");
    writeln!(
        page,
        "<tr><td>{}</td><td>{}, {} CPUs, {} nodes, {}; numapilot {}</td><td data-label=\"kernel\">{}</td>\
         <td data-label=\"noise\">{:.1} %</td><td data-label=\"load\">{}</td></tr>",
        moment(host.time),
        escape(processor),
        host.cpus,
        host.nodes,
        terminal::bytes(host.memory_bytes),
        escape(&host.version),
        escape(&host.kernel),
        host.noise * 100.0,
        host.load.map_or("unknown".to_owned(), |load| format!("{load:.1}"))
    )
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
        escape(&e.differs),
    )?;
    let pictures = picture::draw(e, judged);
    if !pictures.is_empty() {
        writeln!(page, "<figure>\n{}</figure>", pictures.concat())?;
    }
    writeln!(
        page,
        "<table><thead><tr><th>claim</th><th>paper</th><th>here</th><th>95 % interval</th><th></th>\
         <th>verdict</th></tr></thead><tbody>"
    )?;
    for claim in &judged.claims {
        line(page, claim)?;
    }
    writeln!(
        page,
        "</tbody></table>\n<p class=\"quiet\">Repeat it:</p>\n<pre>numapilot study run {} --scale {}</pre>\n\
         <details><summary class=\"quiet\">What is run, {} commands</summary>\n<pre>",
        escape(&e.id),
        section.scale,
        judged.points.len()
    )?;
    for point in &judged.points {
        writeln!(page, "{}", escape(&point.command))?;
    }
    writeln!(page, "</pre></details>\n</section>")
}

fn line(page: &mut String, result: &ClaimResult) -> std::fmt::Result {
    let (here, interval) = match result.values.as_slice() {
        [(_, one)] => {
            (short(one.value), format!("{} <span class=\"quiet\">n={}</span>", span(one), one.n))
        }
        [] => (String::new(), String::new()),
        several => {
            let names =
                several.iter().map(|(name, e)| format!("{} {}", escape(name), short(e.value)));
            (names.collect::<Vec<_>>().join(" &gt; "), String::new())
        }
    };
    let remark = result.remark.as_ref();
    let remark = remark.map(|r| format!("<br><span class=\"quiet\">{}</span>", escape(r)));
    writeln!(
        page,
        "<tr><td>{}{}</td><td data-label=\"paper\">{}</td><td class=\"{}\" data-label=\"here\">{here}</td>\
         <td class=\"number\" data-label=\"95 % interval\">{interval}</td><td>{}</td><td>{}</td></tr>",
        escape(&result.text),
        remark.unwrap_or_default(),
        escape(&paper(result)),
        if result.values.len() == 1 { "number" } else { "" },
        strip::draw(result).unwrap_or_default(),
        badge(result.verdict)
    )
}

fn badge(verdict: Verdict) -> String {
    format!("<span class=\"verdict {}\">{verdict}</span>", class(verdict))
}

fn class(verdict: Verdict) -> String {
    verdict.to_string().replace(' ', "-")
}

fn anchor(section: &Section) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    format!("{}-{}", section.experiment.id.chars().map(safe).collect::<String>(), section.scale)
}
