//! The machine-wide settings that a run may change: how to read and write them.
//!
//! Sources: Documentation/admin-guide/sysctl/kernel.rst (numa_balancing),
//! Documentation/admin-guide/mm/transhuge.rst.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A machine-wide setting. The list is closed, so a journal cannot lead to another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setting {
    /// `kernel.numa_balancing`: 0 off, 1 on, 2 memory tiering, 3 both.
    NumaBalancing,
    /// Transparent huge pages: `always`, `madvise`, `never`.
    Thp,
}

/// A setting and its new value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The setting.
    pub setting: Setting,
    /// The value, as it is written to the kernel.
    pub value: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.setting, self.value)
    }
}

impl Setting {
    /// Its file, below `root`.
    #[must_use]
    pub fn path(self, root: &Path) -> PathBuf {
        root.join(match self {
            Self::NumaBalancing => "proc/sys/kernel/numa_balancing",
            Self::Thp => "sys/kernel/mm/transparent_hugepage/enabled",
        })
    }

    /// Its present value.
    ///
    /// # Errors
    /// `NotFound` on kernels without it.
    pub fn read(self, root: &Path) -> io::Result<String> {
        let text = fs::read_to_string(self.path(root))?;
        let value = chosen(&text);
        if value.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is empty"));
        }
        Ok(value.to_owned())
    }

    /// Writes a value.
    ///
    /// # Errors
    /// `PermissionDenied` without root, `InvalidInput` for a value the kernel refuses.
    pub fn write(self, root: &Path, value: &str) -> io::Result<()> {
        // Opened without O_CREAT, to create no plain file on a kernel without the setting.
        OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(self.path(root))?
            .write_all(value.as_bytes())
    }

    /// Whether this process may write it.
    #[must_use]
    pub fn is_writable(self, root: &Path) -> bool {
        rustix::fs::access(self.path(root), rustix::fs::Access::WRITE_OK).is_ok()
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NumaBalancing => "kernel.numa_balancing",
            Self::Thp => "transparent_hugepage/enabled",
        })
    }
}

/// The chosen value in a file that lists its choices and puts the chosen one in brackets
/// (transhuge.rst): `madvise` in `always [madvise] never`. Without brackets, the whole text.
pub(crate) fn chosen(text: &str) -> &str {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text.trim(), |(value, _)| value)
}
