//! Finds the Rust source files of the workspace.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The root of the workspace.
#[must_use]
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The Rust files in a directory and below it, in order.
///
/// # Errors
/// Errors of the file system.
pub fn rust_files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    collect(directory, &mut |path| path.extension().is_some_and(|end| end == "rs"), &mut found)?;
    Ok(found)
}

/// The folders of the workspace's crates, in order.
///
/// # Errors
/// Errors of the file system.
pub fn crates() -> io::Result<Vec<PathBuf>> {
    let mut manifests = Vec::new();
    let mut is_manifest = |path: &Path| path.file_name().is_some_and(|name| name == "Cargo.toml");
    collect(&workspace().join("crates"), &mut is_manifest, &mut manifests)?;
    Ok(manifests.iter().filter_map(|path| path.parent()).map(Path::to_owned).collect())
}

fn collect(
    directory: &Path,
    is_wanted: &mut impl FnMut(&Path) -> bool,
    found: &mut Vec<PathBuf>,
) -> io::Result<()> {
    let mut entries = fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                collect(&path, is_wanted, found)?;
            }
        } else if is_wanted(&path) {
            found.push(path);
        }
    }
    Ok(())
}
