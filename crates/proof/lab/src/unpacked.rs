//! Packages that were unpacked into the cache, and programs in them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{LabError, cache_directory};

/// Subdirectory of the cache.
const DIRECTORY: &str = "tools";

/// The directory with the unpacked tools; it need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked(PathBuf);

impl Unpacked {
    /// The tools in the cache.
    ///
    /// # Errors
    /// [`LabError::NoHome`].
    pub fn tools() -> Result<Self, LabError> {
        Ok(Self(cache_directory()?.join(DIRECTORY)))
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.0
    }

    /// The path of a program, if it was unpacked.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        let directories = ["usr/bin", "usr/sbin", "sbin"].map(|d| self.0.join(d));
        directories.iter().map(|d| d.join(name)).find(|p| p.is_file())
    }

    /// A command that starts a program of these packages with their libraries.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let mut libraries = self.library_directories();
        libraries.extend(env::var_os("LD_LIBRARY_PATH").iter().flat_map(env::split_paths));
        if let Ok(path) = env::join_paths(libraries) {
            command.env("LD_LIBRARY_PATH", path);
        }
        command
    }

    /// The existing directories among `usr/lib`, `lib` and their subdirectories for this processor.
    fn library_directories(&self) -> Vec<PathBuf> {
        let triplet = format!("{}-linux-gnu", env::consts::ARCH);
        let mut all: Vec<PathBuf> = ["usr/lib", "lib"]
            .iter()
            .flat_map(|d| [self.0.join(d).join(&triplet), self.0.join(d)])
            .collect();
        all.retain(|d| fs::metadata(d).is_ok_and(|m| m.is_dir()));
        all
    }
}
