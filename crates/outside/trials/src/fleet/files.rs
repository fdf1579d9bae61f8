//! Finds and reads files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::file::{FileError, read};
use crate::row::Row;

/// Why files cannot be read.
#[derive(Debug, Error)]
pub enum FleetError {
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
    /// A directory.
    #[error("cannot read {}; check the path", path.display())]
    Directory {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory has no file.
    #[error(
        "{} has no file whose name ends in .parquet; write them by numapilot tune --parquet FILE, \
         one on each host, and collect them there", .0.display()
    )]
    Nothing(PathBuf),
}

/// The rows of these files and of the files `*.parquet` in these directories. `before` is called with
/// each file before it is read.
///
/// # Errors
/// [`FleetError`] for the first that cannot be read.
///
/// # Panics
/// As [`read`].
pub fn load(paths: &[PathBuf], before: impl Fn(&Path)) -> Result<Vec<Row>, FleetError> {
    let mut rows = Vec::new();
    let read = |path: &Path| {
        before(path);
        read(path)
    };
    for path in paths {
        if !path.is_dir() {
            rows.extend(read(path)?);
            continue;
        }
        let files = files_in(path)
            .map_err(|source| FleetError::Directory { path: path.clone(), source })?;
        if files.is_empty() {
            return Err(FleetError::Nothing(path.clone()));
        }
        for file in files {
            rows.extend(read(&file)?);
        }
    }
    Ok(rows)
}

fn files_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "parquet") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::parquet;

    #[test]
    fn files_and_directories_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let error = load(&[folder.path().to_owned()], |_| {}).unwrap_err().to_string();
        assert!(error.contains("has no file whose name ends in .parquet"), "{error}");
        let bytes = parquet(&[Row::default()]).unwrap();
        for name in ["a.parquet", "b.parquet", "c.txt"] {
            fs::write(folder.path().join(name), &bytes).unwrap();
        }
        assert_eq!(load(&[folder.path().to_owned()], |_| {}).unwrap().len(), 2);
        assert_eq!(load(&[folder.path().join("c.txt")], |_| {}).unwrap().len(), 1);
        fs::write(folder.path().join("d.parquet"), "x").unwrap();
        let error = load(&[folder.path().to_owned()], |_| {}).unwrap_err().to_string();
        assert!(error.contains("d.parquet is no Parquet file"), "{error}");
    }
}
