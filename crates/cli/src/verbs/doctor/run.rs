//! Runs `doctor`: makes all checks and prints them.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use numapilot_cli_kit::terminal::Terminal;

use super::args::Args;
use super::check::Files;
use super::report::{Group, Report};
use super::trials::Call;
use super::{cgroups, counters, lab_program, libraries, pages, placement, rights, system};

/// Exit status if something that `run` and `tune` need is missing.
const ESSENTIAL_MISSING: u8 = 1;

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        if let Some(name) = self.trial {
            let call = Call::named(&name).with_context(|| format!("no trial is named {name}"))?;
            call.make()?;
            return Ok(ExitCode::SUCCESS);
        }
        let report = examine();
        if self.json {
            terminal.json(&report)?;
        } else {
            report.print(terminal)?;
        }
        Ok(if report.essential_missing() {
            ExitCode::from(ESSENTIAL_MISSING)
        } else {
            ExitCode::SUCCESS
        })
    }
}

fn examine() -> Report {
    let files = Files::new("/");
    let machine = numapilot_topology::read(Path::new("/"));
    Report::new(vec![
        Group::new("machine", "Machine", system::checks(&machine, &files)),
        Group::new("placement", "Placing threads and memory", placement::checks(&files)),
        Group::new("libraries", "Libraries and allocators", libraries::checks()),
        Group::new("pages", "Pages", pages::checks(&machine, &files)),
        Group::new("counters", "Counting and sampling", counters::checks(&files)),
        Group::new("rights", "Rights", rights::checks(&files)),
        Group::new("cores", "Cores", cgroups::checks(&files)),
        Group::new("emulation", "Emulated machines", lab_program::checks()),
    ])
}
