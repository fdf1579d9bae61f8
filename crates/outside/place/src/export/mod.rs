//! A plan in the words of other launchers: systemd, container runtimes, batch systems, shells.
//!
//! ```text
//!  Plan, Targets --settings()--> Setting, ... --Format::add()--> Answer: written, or why not
//!                                                |
//!                    Format::finish() <----------'     the whole text; what is missing is a comment
//! ```
//!
//! Each setting is decided once (`Setting`); each launcher is one file that says how it writes a
//! setting, or why it cannot. A setting that exists only for the whole machine is the same for all
//! launchers, and is answered here.

mod docker;
mod kubernetes;
mod numactl;
mod oci;
mod setting;
mod shell;
mod slurm;
mod spark;
mod systemd;
mod version;

use std::fmt::Write;
use std::path::Path;

use crate::shell::quote_visibly;
use crate::visible::{is_obeyed, visible_json};
use crate::{Note, PlaceError, Plan, Targets, allocators, threads};

pub use version::{Version, VersionError};

use setting::{Inside, Setting, settings};

/// A launcher to which a plan can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// A drop-in of a unit.
    Systemd,
    /// The configuration of an OCI container.
    Oci,
    /// A command line of Docker or Podman.
    Docker,
    /// A batch script of Slurm.
    Slurm,
    /// Options of spark-submit.
    Spark,
    /// A part of a pod.
    Kubernetes,
    /// A command line with numactl(8) and env(1).
    Numactl,
    /// A shell script that starts a command.
    Shell,
}

impl Launcher {
    /// Every launcher, in the order in which they are listed to the user.
    pub const ALL: &'static [Self] = &[
        Self::Systemd,
        Self::Oci,
        Self::Docker,
        Self::Slurm,
        Self::Spark,
        Self::Kubernetes,
        Self::Numactl,
        Self::Shell,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Systemd => "systemd",
            Self::Oci => "oci",
            Self::Docker => "docker",
            Self::Slurm => "slurm",
            Self::Spark => "spark",
            Self::Kubernetes => "kubernetes",
            Self::Numactl => "numactl",
            Self::Shell => "shell",
        }
    }

    /// The launcher with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|launcher| launcher.name() == name)
    }

    /// The version of the launcher's program on this machine, where what it understands depends on
    /// it. `None` where it does not, and where the program is missing or does not answer.
    #[must_use]
    pub fn version_here(self) -> Option<Version> {
        match self {
            Self::Systemd => version::of("systemctl"),
            Self::Oci => version::of("runc"),
            Self::Numactl | Self::Shell => numactl::version_here(),
            Self::Docker | Self::Slurm | Self::Spark | Self::Kubernetes => None,
        }
    }

    /// Whether what the launcher understands depends on a version.
    #[must_use]
    pub fn depends_on_version(self) -> bool {
        self.format(None).program().is_some()
    }

    fn format(self, version: Option<Version>) -> Box<dyn Format> {
        match self {
            Self::Systemd => Box::new(systemd::Systemd::new(version)),
            Self::Oci => Box::new(oci::Oci::new(version)),
            Self::Docker => Box::new(docker::Docker::default()),
            Self::Slurm => Box::new(slurm::Slurm::default()),
            Self::Spark => Box::new(spark::Spark::default()),
            Self::Kubernetes => Box::new(kubernetes::Kubernetes::default()),
            Self::Numactl => Box::new(numactl::Numactl::new(version)),
            Self::Shell => Box::new(shell::Shell::new(version)),
        }
    }
}

/// What a launcher makes of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    /// It is in the text.
    Written,
    /// It is in the text, but takes effect only if this is true.
    Doubtful(String),
    /// It cannot be written, with the cause.
    Cannot(String),
}

/// How one launcher writes settings.
trait Format {
    /// The program whose version matters, in the user's words: `systemd`, `runc`.
    fn program(&self) -> Option<&'static str>;

    /// Adds a setting to the text, or says why that is impossible.
    fn add(&mut self, inside: &Inside) -> Answer;

    /// How numapilot itself makes the plan under this launcher, where `{run}` stands for
    /// `numapilot run --profile FILE --`.
    fn instead(&self) -> &'static str;

    /// The text. The comments stand before it, one on each line.
    fn finish(&self, comments: &str) -> String;
}

/// An exported plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The text, with comments for what is missing.
    pub text: String,
    /// What the launcher cannot do, or not for sure.
    pub missing: Vec<Note>,
}

/// Writes a plan for a launcher. `targets` are those of the machine on which the program will run,
/// `profile` is the plan's file, and `version` that of the launcher, if it is known.
///
/// # Errors
/// [`PlaceError`] if an allocator is not installed or a variable is invalid.
pub fn export(
    plan: &Plan,
    targets: &Targets,
    profile: &Path,
    launcher: Launcher,
    version: Option<Version>,
) -> Result<Exported, PlaceError> {
    let allocator = allocators::find(&plan.allocator)?;
    let settings = settings(plan, targets, allocator.as_ref(), threads::library().as_deref())?;
    Ok(write(plan, &settings, profile, launcher, version))
}

/// The part of [`export`] that does not depend on what is installed.
fn write(
    plan: &Plan,
    settings: &[Setting],
    profile: &Path,
    launcher: Launcher,
    version: Option<Version>,
) -> Exported {
    let mut format = launcher.format(version.clone());
    let file = String::from_utf8_lossy(&quote_visibly(profile.as_os_str())).into_owned();
    let run = format!("numapilot run --profile {file} --");
    let instead = format.instead().replace("{run}", &run);
    let mut missing = Vec::new();
    for setting in settings {
        let note = match setting {
            Setting::Inside(inside) => match format.add(inside) {
                Answer::Written => continue,
                Answer::Doubtful(cause) | Answer::Cannot(cause) => {
                    Note::new(setting.subject(), cause, &instead)
                }
            },
            Setting::Outside(note) => note.clone(),
        };
        missing.push(note);
    }
    let mut comments = String::new();
    let mut comment = |text: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(comments, "# {}", text.replace(is_obeyed, " "));
    };
    comment(&format!("The plan of {}: {plan}", profile.display()));
    if let Some(program) = format.program() {
        comment(&match version {
            Some(version) => format!("For {program} {version} or newer"),
            None => format!("For a {program} of unknown version; --target-version states it"),
        });
    }
    for note in &missing {
        comment(&note.to_string());
    }
    Exported { text: format.finish(&comments), missing }
}

/// The cause for a launcher that passes only variables with usual names.
const NO_IDENTIFIER: &str = "the name is not made of letters, digits and _ alone";

/// Whether a variable has a usual name (IEEE Std 1003.1, "Name").
fn is_identifier(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(is_part) && name.starts_with(|c: char| !c.is_ascii_digit())
}

/// A text as a string of JSON.
fn json_string(text: &str) -> String {
    visible_json(&serde_json::Value::from(text).to_string())
}

#[cfg(test)]
mod tests;
