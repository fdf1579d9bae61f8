//! The score at the beginning of the page: a picture by paper, what a reader may conclude, and a line
//! for every comparison.

use std::fmt::Write;

use numapilot_cli_kit::svg::{Area, Svg, escape, text_width};
use numapilot_cli_kit::terminal::plural;
use numapilot_study::experiment::{HOST, Past};
use numapilot_study::verdict::Verdict;

use super::cells::{anchor, badge, class, here};
use super::{Section, comparisons, counts};
use crate::verbs::study::paper;

const ROW: f64 = 30.0;
const BAR: f64 = 18.0;
const MARGIN: f64 = 12.0;
/// Width of the bar of the paper with the most comparisons.
const WIDTH: f64 = 560.0;
/// Narrowest part of a bar into which a number fits.
const NUMBER: f64 = 11.0;

/// Writes the score.
///
/// # Errors
/// None in practice, because writing to memory cannot fail.
pub fn write(page: &mut String, past: &Past, sections: &[Section]) -> std::fmt::Result {
    writeln!(page, "<ul class=\"counts\">")?;
    for (verdict, count) in counts(sections) {
        writeln!(page, "<li><b class=\"{}\">{count}</b>{verdict}</li>", class(verdict))?;
    }
    writeln!(page, "</ul>")?;
    if let Some(picture) = picture(sections) {
        writeln!(page, "<figure>\n{picture}</figure>")?;
    }
    conclusions(page, past, sections)?;
    table(page, sections)
}

/// The comparisons of every paper by verdict, as stacked bars; none without comparisons.
fn picture(sections: &[Section]) -> Option<String> {
    let mut papers: Vec<&str> = sections.iter().map(|s| s.experiment.paper.as_str()).collect();
    papers.sort_unstable();
    papers.dedup();
    let of = |paper: &str| counts(sections.iter().filter(|s| s.experiment.paper == paper));
    let sum = |counts: &[(Verdict, usize)]| counts.iter().map(|(_, count)| count).sum::<usize>();
    let rows: Vec<(&str, Vec<(Verdict, usize)>)> =
        papers.iter().map(|paper| (*paper, of(paper))).filter(|(_, c)| sum(c) > 0).collect();
    let most = rows.iter().map(|(_, counts)| sum(counts)).max()? as f64;
    let labels = rows.iter().map(|(paper, _)| text_width(paper, 13.0));
    let left = MARGIN + labels.fold(0.0, f64::max) + 10.0;
    let mut svg = Svg::default();
    let mut y = MARGIN;
    for (paper, counts) in &rows {
        svg.text("text end", left - 10.0, y + 14.0, paper);
        let mut x = left;
        for (verdict, count) in counts {
            let width = WIDTH * *count as f64 / most;
            let area = Area { x, y, width, height: BAR };
            svg.rectangle(&format!("part {}", class(*verdict)), area, 0.0);
            if width >= NUMBER {
                svg.text("count middle small", x + width / 2.0, y + 13.0, &count.to_string());
            }
            x += width;
        }
        svg.text("dim small", x + 8.0, y + 13.0, &sum(counts).to_string());
        y += ROW;
    }
    Some(svg.inline(left + WIDTH + 40.0, y, "comparisons by paper and verdict"))
}

/// What the verdicts say together. All figures come from the verdicts.
fn conclusions(page: &mut String, past: &Past, sections: &[Section]) -> std::fmt::Result {
    let number = |counts: &[(Verdict, usize)], wanted: &[Verdict]| -> usize {
        counts.iter().filter(|(verdict, _)| wanted.contains(verdict)).map(|(_, n)| n).sum()
    };
    let right = [Verdict::Reproduced, Verdict::DirectionOnly];
    let decided = [Verdict::Reproduced, Verdict::DirectionOnly, Verdict::NotReproduced];
    let all = counts(sections);
    writeln!(
        page,
        "<p>Comparisons with a verdict: {}. The direction is the paper's in {} of them, and the size as well in {}.</p>",
        number(&all, &decided),
        number(&all, &right),
        number(&all, &[Verdict::Reproduced])
    )?;
    let emulated = counts(sections.iter().filter(|s| s.experiment.machine != HOST));
    if number(&emulated, &decided) > 0 {
        writeln!(
            page,
            "<p>{} of these {} come from emulated machines, whose time is that of a model. They show that the papers' \
             mechanisms give these figures in the model, not what another machine would give.</p>",
            number(&emulated, &decided),
            number(&all, &decided)
        )?;
    }
    let of_section = |section: &Section| -> Vec<bool> {
        let of = |claim| section.sensitivity.dependence(claim);
        comparisons(section).filter_map(of).map(|dependence| dependence.is_fragile()).collect()
    };
    let varied: Vec<bool> = sections.iter().flat_map(of_section).collect();
    if !varied.is_empty() {
        let fragile = varied.iter().filter(|is_fragile| **is_fragile).count();
        writeln!(
            page,
            "<p>Repeated with half or double of parameters of the model that no description of a machine states: {}. \
             The verdict changes in {}, marked fragile.</p>",
            plural(varied.len(), "comparison"),
            if fragile == 0 { "none".to_owned() } else { fragile.to_string() }
        )?;
    }
    let nodes = past.hosts.iter().map(|host| host.nodes).max();
    let host = counts(sections.iter().filter(|s| s.experiment.machine == HOST));
    if number(&host, &decided) > 0
        && let Some(nodes) = nodes
    {
        writeln!(
            page,
            "<p>{} come from real hosts with at most {}{}.</p>",
            number(&host, &decided),
            plural(nodes, "node"),
            if nodes == 1 { ", which say nothing about remote memory" } else { "" }
        )?;
    }
    writeln!(
        page,
        "<p class=\"quiet\">A verdict is computed from the runs: the median and its 95 % bootstrap interval \
         against the rule of the experiment. An experiment's verdict is its weakest. In the small pictures the dot \
         is the result with its interval, the box is what counts as reproduced, the dark line is the paper's value, \
         and the pale line is where the direction changes.</p>"
    )
}

fn table(page: &mut String, sections: &[Section]) -> std::fmt::Result {
    writeln!(
        page,
        "<table class=\"score\"><thead><tr><th>id</th><th>comparison</th><th>paper</th><th>here</th>\
         <th>verdict</th></tr></thead><tbody>"
    )?;
    for section in sections {
        let e = &section.experiment;
        writeln!(
            page,
            "<tr class=\"experiment\"><td><a href=\"#{}\">{}</a></td><td colspan=\"3\">{} <span class=\"quiet \
             where\">{}, {}; {}, {}</span></td><td>{}</td></tr>",
            anchor(section),
            escape(&e.id),
            escape(&e.title),
            escape(&e.paper),
            escape(&e.place),
            escape(&e.machine),
            section.scale,
            badge(section.judged.verdict)
        )?;
        for claim in comparisons(section) {
            let dependence = section.sensitivity.dependence(claim);
            let is_fragile = dependence.is_some_and(|dependence| dependence.is_fragile());
            writeln!(
                page,
                "<tr><td></td><td>{}</td><td class=\"where\">{}</td><td class=\"where\">{}</td><td>{}{}</td></tr>",
                escape(&claim.text),
                escape(&paper(claim)),
                here(claim),
                badge(claim.verdict),
                if is_fragile { " <span class=\"fragile\">fragile</span>" } else { "" }
            )?;
        }
    }
    writeln!(page, "</tbody></table>")
}
