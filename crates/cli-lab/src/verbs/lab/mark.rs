//! `numapilot lab mark`: begins and ends a region of interest from a script, for programs that
//! cannot be changed.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::ValueEnum;
use numapilot_observe::lab::{LabPmu, MarkKind, NAME_BYTES, WHOLE_NAME};

/// Arguments of `lab mark`.
#[derive(clap::Args)]
pub struct Args {
    /// Whether the region begins or ends.
    #[arg(value_enum)]
    what: What,
    /// Name of the region.
    name: String,
}

/// Whether a region begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// The region begins or continues.
    Begin,
    /// The region ends.
    End,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if ["", WHOLE_NAME].contains(&self.name.as_str()) {
            bail!("'{}' cannot be the name of a region; {WHOLE_NAME} is the whole run", self.name);
        }
        if self.name.len() > NAME_BYTES {
            bail!(
                "the name of a region has at most {NAME_BYTES} bytes; this one has {}",
                self.name.len()
            );
        }
        let Some(lab) = LabPmu::find()? else {
            bail!(
                "this machine is not emulated, or counts nothing; use lab mark in a program that \
                 numapilot lab run starts without --no-model"
            );
        };
        let kind = match self.what {
            What::Begin => MarkKind::Begin,
            What::End => MarkKind::End,
        };
        lab.mark(kind, &self.name).context("cannot lock the lab's PMU")?;
        Ok(ExitCode::SUCCESS)
    }
}
