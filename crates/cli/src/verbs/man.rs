//! `numapilot man [DIR]`: generates manual pages from the argument table and from the table of
//! environment variables, so they are never out of date.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Command;
use clap_mangen::Man;
use numapilot_bind::env;
use numapilot_cli_kit::man::{self, Page};
use numapilot_cli_kit::terminal::Terminal;

use crate::elsewhere;

/// Arguments of `man`.
#[derive(clap::Args)]
pub struct Args {
    /// Write numapilot.1, one page per verb (numapilot-run.1, ...) and the environment variables
    /// of the libraries (numapilot-environment.7) into this directory, which must exist.
    dir: Option<PathBuf>,
}

impl Args {
    pub fn run(self, terminal: &Terminal, command: Command) -> anyhow::Result<ExitCode> {
        let Some(dir) = self.dir else {
            Man::new(command).render(&mut terminal.out())?;
            return Ok(ExitCode::SUCCESS);
        };
        // numapilot-lab writes the pages of its own verbs.
        let is_here = |verb: &str| !elsewhere::is_verb(verb);
        man::write_verbs(command, &dir, is_here, |command| {
            let name = "numapilot-environment.7".to_owned();
            Ok(vec![Page::of(command)?, Page { name, text: environment().into_bytes() }])
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The page of the variables that are read inside a program, in the format of man(7).
fn environment() -> String {
    let mut page = String::from(
        ".TH numapilot-environment 7\n\
         .SH NAME\n\
         numapilot-environment \\- variables that numapilot\\(aqs libraries read\n\
         .SH DESCRIPTION\n\
         libnumapilot_bind.so and libnumapilot_alloc.so read these inside the program they are\n\
         preloaded into or linked with. A value that cannot be used is reported on standard\n\
         error and changes nothing.\n\
         .SH ENVIRONMENT\n",
    );
    for variable in env::TABLE {
        let [format, meaning] = [variable.format, variable.meaning]
            .map(|text| text.replace('\\', "\\e").replace('-', "\\-"));
        page += &format!(".TP\n.B {}\n{format}:\n{meaning}.\n", variable.name);
    }
    page + ".SH SEE ALSO\nnumapilot\\-run(1)\n"
}
