//! Where the far ends of a launcher attest what took effect.

use std::path::{Path, PathBuf};

use anyhow::Context;
use numapilot_place::name_prefix;
use tempfile::TempDir;

/// A directory of the user, or a new one that is removed when this is dropped.
pub enum Directory {
    Given(PathBuf),
    New(TempDir),
}

impl Directory {
    /// The directory of `--attest`, or a new one in the working directory: launchers usually start
    /// programs in the same one, on a file system that the machines share.
    pub fn of(attest: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(path) = attest {
            return Ok(Self::Given(path.to_owned()));
        }
        let prefix = name_prefix("attest")?;
        let directory = tempfile::Builder::new().prefix(&prefix).tempdir_in(".");
        directory.map(Self::New).context(
            "cannot make a directory for the attestations in the working directory; give --attest \
             DIR, on a file system that both sides of the launcher see",
        )
    }

    pub fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::New(directory) => directory.path(),
        }
    }
}
