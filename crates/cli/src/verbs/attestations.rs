//! Where the far ends of a launcher attest what took effect.

use std::path::Path;

use anyhow::Context;
use numapilot_place::guard::run_mark;
use numapilot_place::via::{RunDirectory, Template, Via};

/// The launcher. The far ends attest in the directory of `--attest`, or in the working directory:
/// launchers usually start programs in the same one, on a file system that the machines share.
pub fn via(template: &Template, attest: Option<&Path>) -> anyhow::Result<Via> {
    Ok(Via::new(template.clone(), attest.unwrap_or(Path::new(".")))?)
}

/// Makes the directory of the only run of this process.
pub fn begin(via: &Via, is_kept: bool) -> anyhow::Result<RunDirectory> {
    let mark = run_mark(0).context("cannot read this process's start in /proc")?;
    Ok(via.begin_run(&mark, is_kept)?)
}
