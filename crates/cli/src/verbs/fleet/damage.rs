//! Names the file that is being read, if decoding it panics.
//!
//! The crate that decodes Parquet panics at some damage within a page, and this program aborts on a
//! panic. Before it would, a hook prints the error and ends the process. Nothing is written at that
//! time.

use std::panic;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, PoisonError};

use anyhow::anyhow;
use numapilot_cli_kit::program::OWN_FAILURE;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_trials::Row;
use numapilot_trials::fleet::{FleetError, Loaded, load};

/// The file that is being read.
static READING: Mutex<String> = Mutex::new(String::new());

/// Reads the rows of these files and directories. Warns of those that several files have.
///
/// # Errors
/// [`FleetError`].
pub fn load_guarded(terminal: &Terminal, paths: &[PathBuf]) -> Result<Vec<Row>, FleetError> {
    let before = |path: &Path| {
        *READING.lock().unwrap_or_else(PoisonError::into_inner) = path.display().to_string();
    };
    let previous = panic::take_hook();
    let terminal = *terminal;
    panic::set_hook(Box::new(move |_| {
        let path = READING.lock().unwrap_or_else(PoisonError::into_inner);
        let remedy = "write it again by numapilot tune --resume --parquet";
        terminal.error(&anyhow!("{path} is damaged; {remedy}"));
        process::exit(OWN_FAILURE.into());
    }));
    let loaded = load(paths, before);
    panic::set_hook(previous);
    let Loaded { rows, repeated, .. } = loaded?;
    match repeated {
        0 => {}
        1 => terminal.warn("1 run is in several files and counts once"),
        many => terminal.warn(format!("{many} runs are in several files and count once")),
    }
    Ok(rows)
}
