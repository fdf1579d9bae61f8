//! `--root`: a directory with `sys` and `proc` in it, or a recording, unpacked for as long
//! as it is looked at.

use std::path::{Path, PathBuf};

use anyhow::Context;
use numapilot_topology::{Recording, bounded};
use tempfile::TempDir;

/// Bytes that a recording may have.
const LONGEST: u64 = 64 << 20;

/// Where the kernel files of the machine are.
pub enum Root {
    /// As they are.
    Directory(PathBuf),
    /// Unpacked from a recording; removed when dropped.
    Unpacked(TempDir),
}

impl Root {
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        // What is not there is for the reader to say.
        if !path.exists() || path.is_dir() {
            return Ok(Self::Directory(path.to_owned()));
        }
        let text = bounded::read(path, LONGEST)
            .with_context(|| format!("cannot read the recording {}", path.display()))?;
        let recording: Recording = text
            .parse()
            .with_context(|| format!("{} is not a recording of a machine", path.display()))?;
        let directory = numapilot_place::scratch_directory("recording")
            .context("cannot make a temporary directory; set TMPDIR to one that is writable")?;
        recording.unpack(directory.path()).with_context(|| {
            format!("cannot unpack {} into {}", path.display(), directory.path().display())
        })?;
        Ok(Self::Unpacked(directory))
    }

    pub fn path(&self) -> &Path {
        match self {
            Self::Directory(path) => path,
            Self::Unpacked(directory) => directory.path(),
        }
    }
}
