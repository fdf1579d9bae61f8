//! The guest's files: a program with everything it needs, as an initramfs, the archive that the
//! kernel unpacks into its root at boot.

mod archive;
mod libraries;
mod tree;
mod trimmed;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use numapilot_lab_init::{DIRECTORY, PROGRAM, TASK_FILE, Task};
use numapilot_place::elf::{Kind, inspect};
use numapilot_place::find_program;
use rustix::fs::{Mode, OFlags};

use self::tree::Tree;
use crate::directories::scratch_directory;
use crate::{LabError, cache_directory};

/// The contents of the initramfs.
#[derive(Clone, Debug)]
pub struct Contents<'a> {
    /// The task of process 1.
    pub task: &'a Task,
    /// The file of process 1 on the host.
    pub init: &'a Path,
    /// numapilot's programs and libraries, which are placed beside process 1.
    pub own: &'a [PathBuf],
    /// Files, directories and programs to include.
    pub include: &'a [PathBuf],
}

/// Programs that others start implicitly: system(3) runs `sh`.
const ALWAYS: [&str; 1] = ["/bin/sh"];

/// Files that the C library reads; those that exist and are readable are included.
const CONFIGURATION: [&str; 8] = [
    "/etc/group",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/services",
    "/etc/protocols",
];

/// Directories of every system, with their modes.
const SKELETON: [(&str, u32); 10] = [
    ("/dev", 0o755),
    ("/proc", 0o555),
    ("/sys", 0o555),
    ("/tmp", 0o1777),
    ("/var/tmp", 0o1777),
    ("/run", 0o755),
    ("/root", 0o700),
    ("/home", 0o755),
    ("/mnt", 0o755),
    ("/etc", 0o755),
];

/// Builds the initramfs in a file without a name. Returns it with its size in bytes, which is about
/// the memory that the files take in the guest.
///
/// # Errors
/// [`LabError`] for files that are missing or cannot be read, and for a full disk of the host.
/// Nothing is left behind.
pub fn build(contents: &Contents<'_>) -> Result<(File, u64), LabError> {
    let scratch = scratch_directory()?;
    // Every user of the guest may enter the tree's root, but only this user may enter the scratch
    // directory.
    let root = scratch.path().join("root");
    let mut tree = Tree::new(&root);
    for path in contents.include {
        tree.include(path)?;
        tree.needs_of(path)?;
    }
    tree.program(&contents.task.program)?;
    for path in ALWAYS.iter().map(Path::new).filter(|p| p.exists()) {
        tree.program(path)?;
    }
    for library in preloaded(contents.task) {
        tree.include(&library)?;
        tree.needs_of(&library)?;
    }
    for path in CONFIGURATION.iter().map(Path::new).filter(|p| File::open(p).is_ok()) {
        tree.include(path)?;
    }
    let ours = Path::new(DIRECTORY);
    for file in contents.own.iter().map(PathBuf::as_path).chain([contents.init]) {
        if let Some(name) = file.file_name() {
            tree.file_as(file, &ours.join(name))?;
            tree.needs_of(file)?;
        }
    }
    tree.text(&ours.join(TASK_FILE), &contents.task.to_bytes(), 0o600)?;
    for (path, mode) in SKELETON {
        tree.directory_unless_link(Path::new(path), mode)?;
    }
    tree.directory_if_none(&contents.task.directory, 0o755)?;
    let cache = cache_directory()?;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let archive = rustix::fs::open(&cache, flags, Mode::RUSR | Mode::WUSR)
        .map_err(LabError::at("make a file in", &cache))?;
    let archive = File::from(archive);
    archive::write(&root, archive.try_clone().map_err(LabError::host("use a file"))?)?;
    let bytes = archive.metadata().map_err(LabError::host("use a file"))?.len();
    Ok((archive, bytes))
}

/// Whether a path is in a file system that the guest's kernel provides.
#[must_use]
pub fn is_kernels_own(path: &Path) -> bool {
    tree::OWN.iter().any(|own| path.starts_with(own))
}

/// The path of process 1 in the guest.
#[must_use]
pub fn init_path() -> PathBuf {
    Path::new(DIRECTORY).join(PROGRAM)
}

/// The libraries that the task's environment preloads by path.
fn preloaded(task: &Task) -> Vec<PathBuf> {
    let value = task.environment.iter().find(|(name, _)| name == "LD_PRELOAD");
    let value = value.map_or_else(OsString::new, |(_, value)| value.clone());
    let entries = value.as_bytes().split(|b| matches!(b, b':' | b' '));
    let paths = entries.map(|entry| Path::new(OsStr::from_bytes(entry)).to_owned());
    // A missing library is skipped: ld.so only prints a warning for it.
    paths.filter(|path| path.is_absolute() && path.is_file()).collect()
}

/// Whether a file has the name of a shared library.
fn is_library(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    name.ends_with(".so") || name.contains(".so.")
}

/// The dynamic loader of this program; `None` if it is static.
fn own_loader() -> Result<Option<PathBuf>, LabError> {
    let own = Path::new("/proc/self/exe");
    match inspect(own).map_err(LabError::at("read", own))?.kind {
        Kind::Dynamic { loader, .. } => Ok(Some(loader)),
        Kind::Static | Kind::Other => Ok(None),
    }
}

/// Resolves the user's `--include` options: files and directories, and programs by name.
///
/// # Errors
/// [`LabError::NothingToInclude`] for anything else.
pub fn to_include(what: &[OsString]) -> Result<Vec<PathBuf>, LabError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    what.iter()
        .map(|what| {
            let given = PathBuf::from(what);
            let fits = |path: &PathBuf| path.is_file() || path.is_dir();
            let found = Some(given).filter(fits).or_else(|| find_program(what, &path));
            found.ok_or_else(|| LabError::NothingToInclude {
                what: what.to_string_lossy().into_owned(),
            })
        })
        .collect()
}
