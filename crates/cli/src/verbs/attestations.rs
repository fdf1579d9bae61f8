//! Where the far ends of a launcher attest what took effect, and what follows from it.

use std::path::Path;

use anyhow::Context;
use numapilot_cli_kit::terminal::printable;
use numapilot_place::Plan;
use numapilot_place::guard::run_mark;
use numapilot_place::via::{Attestation, Missing, RunDirectory, Template, Via};

/// The launcher, with so many far ends if that is given. They attest in the directory of `--attest`,
/// or in the working directory: launchers usually start programs in the same one, on a file system
/// that the machines share.
pub fn via(template: &Template, attest: Option<&Path>, count: Option<u32>) -> anyhow::Result<Via> {
    Ok(Via::new(template.clone(), attest.unwrap_or(Path::new(".")), count)?)
}

/// Makes the directory of the only run of this process.
pub fn begin(via: &Via, is_kept: bool) -> anyhow::Result<RunDirectory> {
    let mark = run_mark(0).context("cannot read this process's start in /proc")?;
    Ok(via.begin_run(&mark, is_kept)?)
}

/// What the far ends of so many runs attest is missing, on one line. What a far end attests is passed
/// to `each`. A program that could not be run is not named again after a failure: the far end has
/// printed it.
pub fn missing(
    via: &Via,
    directory: &RunDirectory,
    plan: &Plan,
    runs: usize,
    has_failed: bool,
    each: impl Fn(&Attestation),
) -> Option<String> {
    let judged = via.attested(directory).and_then(|attested| {
        attested.iter().for_each(each);
        via.judge(plan, &attested, runs)
    });
    match judged {
        Ok(()) => None,
        Err(Missing::NotRun(_)) if has_failed => None,
        Err(missing) => {
            Some(format!("--via {}: {}", via.template(), printable(&missing.to_string())))
        }
    }
}
