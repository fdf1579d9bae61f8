//! `--dump`: writes the input of a workload to a file.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use numapilot_cli_kit::terminal::{self, Terminal};
use numapilot_workloads::data::{self, Source};

/// Writes tables to a file, one after the other, and prints its size.
pub fn dump(terminal: &Terminal, tables: &[&dyn Source], path: &Path) -> anyhow::Result<ExitCode> {
    let bytes = data::dump(tables, path)?;
    writeln!(terminal.out(), "{}: {}", path.display(), terminal::bytes(bytes))?;
    Ok(ExitCode::SUCCESS)
}
