//! The guest's kernel: a distribution's kernel, unpacked into the cache and never installed.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{LabError, cache_directory, uncompressed};

/// A kernel that boots without modules on the lab's machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The compressed image.
    pub path: PathBuf,
    /// Its version.
    pub version: String,
}

/// Subdirectory of the cache with the unpacked kernel package.
pub(crate) const DIRECTORY: &str = "kernel";

impl Kernel {
    /// The kernel in the cache.
    ///
    /// # Errors
    /// [`LabError::NoKernel`] when `lab setup` has not put one there.
    pub fn find() -> Result<Self, LabError> {
        let directory = cache_directory()?.join(DIRECTORY).join("boot");
        let found = fs::read_dir(&directory).ok().into_iter().flatten().filter_map(Result::ok);
        found
            .filter_map(|entry| Self::of(&entry.path()))
            .max_by(|a, b| a.version.cmp(&b.version))
            .ok_or(LabError::NoKernel { directory })
    }

    /// A kernel from a file.
    ///
    /// # Errors
    /// [`LabError::NotAKernel`] when the file is not a kernel for this processor.
    pub fn at(path: &Path) -> Result<Self, LabError> {
        // "HdrS" of the x86 boot protocol (Documentation/arch/x86/boot.rst).
        let head = fs::read(path).ok().filter(|bytes| bytes.get(0x202..0x206) == Some(b"HdrS"));
        match head {
            Some(_) => Ok(Self { path: path.to_owned(), version: version(path) }),
            None => Err(LabError::NotAKernel { path: path.to_owned() }),
        }
    }

    /// The file to boot. The first call takes a second.
    ///
    /// # Errors
    /// [`LabError::System`] when the cache cannot be written.
    pub fn boot_file(&self) -> Result<PathBuf, LabError> {
        uncompressed::uncompressed_kernel(&self.path, &self.version)
    }

    fn of(path: &Path) -> Option<Self> {
        path.file_name()?.to_str()?.starts_with("vmlinuz-").then(|| Self::at(path).ok())?
    }
}

fn version(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    name.strip_prefix("vmlinuz-").unwrap_or(&name).to_owned()
}
