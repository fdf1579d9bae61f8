//! `--root`: a directory with `sys` and `proc` in it, or a recording of one.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use numapilot_topology::{Machine, Recording, bounded};

/// Longest recording in bytes.
const LONGEST: u64 = 64 << 20;

/// The place of the machine's kernel files.
pub enum Root {
    /// In a directory.
    Directory(PathBuf),
    /// In a recording.
    Recorded(PathBuf, Recording),
}

impl Root {
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        if let Ok(false) = path.try_exists() {
            bail!(
                "--root {} is not there; name a directory with sys and proc in it, or a file that \
                 numapilot topo --record wrote",
                path.display()
            );
        }
        // Other errors are reported on reading.
        if !path.exists() || path.is_dir() {
            return Ok(Self::Directory(path.to_owned()));
        }
        let text = bounded::read(path, LONGEST)
            .with_context(|| format!("cannot read the recording {}", path.display()))?;
        let recording = text
            .parse()
            .with_context(|| format!("{} is not a recording of a machine", path.display()))?;
        Ok(Self::Recorded(path.to_owned(), recording))
    }

    /// The machine that these files describe.
    pub fn machine(&self) -> anyhow::Result<Machine> {
        match self {
            Self::Directory(path) => Ok(numapilot_topology::read(path)?),
            Self::Recorded(path, recording) => {
                recording.machine().with_context(|| format!("recording {}", path.display()))
            }
        }
    }

    /// A recording of these files.
    pub fn recording(self) -> anyhow::Result<Recording> {
        match self {
            Self::Directory(path) => Ok(Recording::record(&path)?),
            Self::Recorded(_, recording) => Ok(recording),
        }
    }
}
