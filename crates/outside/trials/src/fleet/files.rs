//! Finds and reads files.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use numapilot_topology::remedy;
use thiserror::Error;

use crate::file::{FileError, read};
use crate::row::{Row, Source};

/// Why files cannot be read.
#[derive(Debug, Error)]
pub enum FleetError {
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
    /// A directory.
    #[error("cannot read {}; {}", path.display(), remedy::reading(source))]
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

/// What files have.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The rows, each once.
    pub rows: Vec<Row>,
    /// How many more of them other files have as well, as copies of a file do.
    pub repeated: usize,
    /// How often each row was in one file. A row is known by all of its fields but those of the host,
    /// which a resumed search writes anew.
    counts: HashMap<String, usize>,
}

impl Loaded {
    fn add(&mut self, rows: Vec<Row>) {
        let mut own: HashMap<String, usize> = HashMap::new();
        for row in rows {
            let source = Source { host: String::new(), kernel: None, ..row.source.clone() };
            let key = format!("{:?}", Row { source, ..row.clone() });
            let before = self.counts.get(&key).copied().unwrap_or(0);
            let count = own.entry(key).or_insert(0);
            *count += 1;
            if *count > before {
                self.rows.push(row);
            } else {
                self.repeated += 1;
            }
        }
        for (key, count) in own {
            let most = self.counts.entry(key).or_insert(0);
            *most = count.max(*most);
        }
    }
}

/// The rows of these files and of the files `*.parquet` in these directories. `before` is called with
/// each file before it is read. What a second file has of the same runs, as a copy does, is left out.
///
/// # Errors
/// [`FleetError`] for the first that cannot be read.
///
/// # Panics
/// As [`read`].
pub fn load(paths: &[PathBuf], before: impl Fn(&Path)) -> Result<Loaded, FleetError> {
    let mut loaded = Loaded::default();
    let read = |path: &Path| {
        before(path);
        read(path)
    };
    for path in paths {
        if !path.is_dir() {
            loaded.add(read(path)?);
            continue;
        }
        let files = files_in(path)
            .map_err(|source| FleetError::Directory { path: path.clone(), source })?;
        if files.is_empty() {
            return Err(FleetError::Nothing(path.clone()));
        }
        for file in files {
            loaded.add(read(&file)?);
        }
    }
    Ok(loaded)
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
        let row = |round| Row { round, ..Row::default() };
        for (name, rows) in [("a.parquet", [row(0), row(0)]), ("c.txt", [row(1), row(2)])] {
            fs::write(folder.path().join(name), parquet(&rows).unwrap()).unwrap();
        }
        let rows = |path: &Path| load(&[path.to_owned()], |_| {}).unwrap().rows.len();
        assert_eq!(rows(folder.path()), 2);
        assert_eq!(rows(&folder.path().join("c.txt")), 2);
        fs::write(folder.path().join("d.parquet"), "x").unwrap();
        let error = load(&[folder.path().to_owned()], |_| {}).unwrap_err().to_string();
        assert!(error.contains("d.parquet is no Parquet file"), "{error}");
    }

    #[test]
    fn a_copy_of_a_file_counts_once() {
        let folder = tempfile::tempdir().unwrap();
        let row = |round| Row { round, ..Row::default() };
        let write = |name: &str, rows: &[Row]| {
            let path = folder.path().join(name);
            fs::write(&path, parquet(rows).unwrap()).unwrap();
            path
        };
        let elsewhere = |row: Row| {
            let source = Source { host: "other".to_owned(), ..row.source.clone() };
            Row { source, ..row }
        };
        let early = write("early.parquet", &[elsewhere(row(0)), elsewhere(row(1))]);
        // The same search, with what has run since.
        let later = write("later.parquet", &[row(0), row(1), row(1), row(2)]);
        let loaded = load(&[early.clone(), later, early], |_| {}).unwrap();
        let rounds: Vec<i64> = loaded.rows.iter().map(|row| row.round).collect();
        assert_eq!((rounds, loaded.repeated), (vec![0, 1, 1, 2], 4));
    }
}
