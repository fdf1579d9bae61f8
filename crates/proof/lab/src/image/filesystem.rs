//! Makes an ext4 file system from a directory, by mke2fs(8).

use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::descriptor::{inherit, path_of};
use crate::unpacked::Unpacked;
use crate::{LabError, cache_directory};

/// The features that only a permanent disk needs are turned off: a journal, checksums, and space to
/// grow.
const FEATURES: &str = "^has_journal,^metadata_csum,^resize_inode";
/// Free inodes, beyond those of the files.
const SPARE_INODES: u64 = 16384;
/// The text of mke2fs when the host's disk is full.
const FULL: &str = "No space left on device";
/// Size of an inode.
const INODE: u64 = 256;

/// A file without a name that contains the directory as a file system with `bytes` of free space.
pub fn make(directory: &Path, bytes: u64, files: u64) -> Result<File, LabError> {
    let cache = cache_directory()?;
    // Not on a tmpfs, so the disk does not take the guest's memory.
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let disk = rustix::fs::open(&cache, flags, Mode::RUSR | Mode::WUSR)
        .map_err(LabError::at("make a file in", &cache))?;
    let inodes = files + SPARE_INODES;
    // Tables and bitmaps take less than 1 % of the space.
    let size = (bytes + inodes * INODE + bytes / 50 + (16 << 20)).next_multiple_of(1 << 20);
    rustix::fs::ftruncate(&disk, size).map_err(LabError::at("make a file in", &cache))?;
    let disk = File::from(disk);
    inherit(&disk)?;
    let output = mke2fs()?
        .args(["-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-O", FEATURES])
        .args(["-E", "lazy_itable_init=1,nodiscard,root_owner=0:0"])
        .arg("-N")
        .arg(inodes.to_string())
        .arg("-d")
        .arg(directory)
        .arg(path_of(&disk))
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(LabError::host("run mke2fs"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        // The host's disk is full. If the guest's disk were too small, mke2fs would report a
        // missing block instead.
        return Err(match said.contains(FULL) {
            true => LabError::at("write the guest's disk in", &cache)(Errno::NOSPC),
            false => LabError::Mke2fs { said },
        });
    }
    Ok(disk)
}

/// mke2fs, whose directory is often not in a user's PATH.
///
/// # Errors
/// [`LabError::NoMke2fs`] when it is neither installed nor in the cache.
pub fn mke2fs() -> Result<Command, LabError> {
    const NAME: &str = "mke2fs";
    let path = env::var_os("PATH").unwrap_or_default();
    let installed = env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(NAME))
        .find(|program| program.is_file());
    if let Some(program) = installed {
        return Ok(Command::new(program));
    }
    let tools = Unpacked::tools()?;
    let program = tools.program(NAME).ok_or(LabError::NoMke2fs)?;
    Ok(tools.command(&program))
}
