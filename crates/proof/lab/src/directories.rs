//! The lab's directories: the cache of downloads, and scratch directories in it.
//!
//! Source: XDG Base Directory Specification.

use std::env;
use std::path::PathBuf;

use numapilot_place::LockedDirectory;

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

/// Makes a scratch directory in the cache, to collect the guest's files or to unpack packages. It is
/// the only named file of a lab; the next lab removes those of killed ones.
pub(crate) fn scratch_directory() -> Result<LockedDirectory, LabError> {
    Ok(LockedDirectory::new(&cache_directory()?.join("scratch"), "scratch-")?)
}
