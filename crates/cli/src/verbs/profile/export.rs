//! `numapilot profile export FILE --to TARGET`: the plan in the words of another launcher.

use std::io::Write;
use std::process::ExitCode;

use numapilot_cli_kit::plan_args::load_profile;
use numapilot_cli_kit::terminal::{Terminal, plural};
use numapilot_place::export::export;
use numapilot_place::{PlaceError, Reach, Targets};

use super::args::ExportArgs;

/// Runs `profile export`. Nodes and CPUs are those of this machine.
pub fn run(args: &ExportArgs, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    if let Some(version) = args.target_version.as_ref().filter(|_| !args.to.depends_on_version()) {
        anyhow::bail!(
            "--target-version {version} has no effect on what is written for {}; leave it out",
            args.to.name()
        );
    }
    let plan = load_profile(terminal, &args.profile, args.strict)?;
    let targets = Targets::here(&plan, Reach::Allowed)?;
    let version = args.target_version.clone().or_else(|| args.to.version_here());
    // A service does not start in this directory.
    let profile = std::path::absolute(&args.profile)?;
    let exported = export(&plan, &targets, &profile, args.to, version)?;
    if !exported.missing.is_empty() {
        if args.strict {
            return Err(PlaceError::Strict(exported.missing).into());
        }
        let subjects: Vec<&str> = exported.missing.iter().map(|n| n.subject.as_str()).collect();
        terminal.warn(format_args!(
            "{}: {} of the plan missing or in doubt ({}); see the comments in the output",
            args.to.name(),
            plural(subjects.len(), "setting"),
            subjects.join(", ")
        ));
    }
    terminal.out().write_all(exported.text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
