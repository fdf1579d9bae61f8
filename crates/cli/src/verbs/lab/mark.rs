//! `numapilot lab mark`: begins and ends a region of interest from a script, for programs
//! that cannot be changed.

use std::fs::File;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::ValueEnum;
use numapilot_observe::lab::LabPmu;
use numapilot_sys::mark;

/// Arguments of `lab mark`.
#[derive(clap::Args)]
pub struct Args {
    /// What happens to the region.
    #[arg(value_enum)]
    what: What,
    /// Its name.
    name: String,
}

/// Begin or end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// It begins, or goes on.
    Begin,
    /// It ends.
    End,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Some(lab) = LabPmu::find()? else {
            bail!(
                "this machine is not emulated, or counts nothing; use lab mark in a program that \
                 numapilot lab run starts without --no-model"
            );
        };
        // There is one place for the name of the next mark.
        let file = File::open(lab.path()).context("cannot open the lab's PMU")?;
        file.lock().context("cannot lock the lab's PMU")?;
        lab.pmu().set_mark_name(&self.name);
        match self.what {
            What::Begin => mark::begin_named(),
            What::End => mark::end_named(),
        }
        Ok(ExitCode::SUCCESS)
    }
}
