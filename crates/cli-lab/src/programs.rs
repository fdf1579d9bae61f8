//! Finds the executables of numapilot's two programs.

use std::path::PathBuf;

use anyhow::Context;
use numapilot_place::own_program;

/// The path of this program.
///
/// # Errors
/// When the kernel does not report it.
pub fn numapilot_lab() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find numapilot-lab's executable")
}

/// The path of `numapilot`.
///
/// # Errors
/// When it is neither beside this program nor on `PATH`.
pub fn numapilot() -> anyhow::Result<PathBuf> {
    own_program("numapilot").context(
        "numapilot is neither beside numapilot-lab nor on PATH; install the package numapilot, or \
         build it with `make build`",
    )
}
