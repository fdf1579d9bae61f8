//! Where the lab keeps what it has fetched.
//!
//! Source: XDG Base Directory Specification.

use std::env;
use std::path::PathBuf;

use crate::LabError;

/// `$XDG_CACHE_HOME/numapilot/lab`, by default `~/.cache/numapilot/lab`; it need not exist.
///
/// # Errors
/// [`LabError::NoHome`] when the environment names neither.
pub fn cache_directory() -> Result<PathBuf, LabError> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".cache")))
        .map(|cache| cache.join("numapilot/lab"))
        .ok_or(LabError::NoHome)
}
