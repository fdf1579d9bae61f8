//! Arguments of `profile`.

use std::path::PathBuf;

use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use numapilot_place::export::{Launcher, Version};

/// Arguments of `profile`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

/// What is done with the profile.
#[derive(Subcommand)]
pub enum Verb {
    /// Show what a profile sets and where it was measured.
    Show(ShowArgs),
    /// Start a small program under the profile and read back what took effect.
    Check(CheckArgs),
    /// Write the plan for another launcher.
    Export(ExportArgs),
    /// The program that `check` starts.
    #[command(hide = true)]
    Probe,
}

/// Arguments of `profile show`.
#[derive(clap::Args)]
pub struct ShowArgs {
    /// The profile.
    #[arg(value_name = "FILE")]
    pub profile: PathBuf,
}

/// Arguments of `profile check`.
#[derive(clap::Args)]
#[command(after_help = "\
The exit status is 0 if no setting is without effect, 1 if one is, and 125 if the profile cannot be \
checked.")]
pub struct CheckArgs {
    /// The profile.
    #[arg(value_name = "FILE")]
    pub profile: PathBuf,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `profile export`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:\n  numapilot profile export best.toml --to systemd > numa.conf\n  \
numapilot profile export best.toml --to oci --target-version 1.4.0 --strict")]
pub struct ExportArgs {
    /// The profile.
    #[arg(value_name = "FILE")]
    pub profile: PathBuf,

    /// Write for this launcher.
    #[arg(long, value_name = "TARGET", value_parser = launchers())]
    pub to: Launcher,

    /// The version of the launcher (systemd, runc, numactl) on the machine where the program will
    /// run; without it, that of this machine. The other launchers are the same in all versions.
    #[arg(long, value_name = "VERSION")]
    pub target_version: Option<Version>,

    /// Fail if the launcher cannot express a part of the plan, instead of writing a comment.
    #[arg(long)]
    pub strict: bool,
}

fn launchers() -> impl TypedValueParser<Value = Launcher> {
    PossibleValuesParser::new(Launcher::ALL.iter().map(|launcher| launcher.name()))
        .try_map(|name| Launcher::from_name(&name).ok_or("not one of the names"))
}
