//! Finding allocators: by name in the directories of the dynamic linker, or by path.

mod code;
mod in_use;
mod library;
mod linked;
mod search;
mod table;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use code::AllocatorCode;
pub use in_use::{Embedded, InUse, in_use};
pub(crate) use in_use::{executable_files, is_runtime, other_malloc};
pub use linked::linked;
pub use search::{add_own_directory, library_directories, own_directories};
pub(crate) use table::C_LIBRARY;
pub use table::{GLIBC, GLIBC_HUGE_PAGES, HugePages, KNOWN, Known, known};

use crate::AllocatorChoice;
use crate::prepare::own_malloc::exports_malloc;

/// An installed allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its table entry, or `None` for an unknown library that was given by path.
    pub known: Option<&'static Known>,
    /// The path of the library for `LD_PRELOAD`.
    pub path: PathBuf,
    /// The version in the name of the file to which the path leads: `2.0` of `libmimalloc.so.2.0`.
    pub version: Option<String>,
}

/// Writes its name, or the file name of an unknown library.
impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.known, self.path.file_name()) {
            (Some(known), _) => f.write_str(known.name),
            (None, Some(file)) => f.write_str(&file.to_string_lossy()),
            (None, None) => f.write_str("library"),
        }
    }
}

/// Why an allocator cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FindError {
    /// The name is unknown.
    #[error("unknown allocator '{name}'; known are {known}; or give the path of a library")]
    Unknown {
        /// The requested one.
        name: String,
        /// All names.
        known: String,
    },
    /// The name is known, but the library is not installed.
    #[error("allocator {name} is not installed: looked for {files} in {directories}; {remedy}")]
    NotInstalled {
        /// The requested one.
        name: String,
        /// The file names.
        files: String,
        /// The searched directories.
        directories: String,
        /// How to install it.
        remedy: String,
    },
    /// The path does not lead to a library that can be loaded.
    #[error("allocator library {}: {cause}; give the path of a shared library", path.display())]
    BadPath {
        /// The requested one.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
}

/// Finds the library of a choice. Returns `None` for a choice that needs none (`inherit`, `glibc`).
///
/// # Errors
/// [`FindError`] with the file names, the searched directories and the way to install it.
pub fn find(choice: &AllocatorChoice) -> Result<Option<Found>, FindError> {
    match choice {
        AllocatorChoice::Inherit => Ok(None),
        AllocatorChoice::Named(name) if name.eq_ignore_ascii_case(GLIBC) => Ok(None),
        AllocatorChoice::Named(name) => by_name(name, &library_directories()).map(Some),
        AllocatorChoice::Path(path) => by_path(Path::new(path)).map(Some),
    }
}

/// All known allocators that are installed, in the order of the table. Two names that lead to one
/// file count once.
#[must_use]
pub fn installed() -> Vec<Found> {
    let directories = library_directories();
    let mut found: Vec<Found> = Vec::new();
    for known in KNOWN {
        if let Ok(new) = by_name(known.name, &directories)
            && found.iter().all(|f| f.path != new.path)
        {
            found.push(new);
        }
    }
    found
}

/// All libraries in a directory that export `malloc`, by file name. Links to one file count once.
///
/// # Errors
/// If the directory cannot be read.
pub fn in_directory(directory: &Path) -> io::Result<Vec<Found>> {
    let entries = std::fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
    let mut paths: Vec<PathBuf> = entries.iter().map(std::fs::DirEntry::path).collect();
    paths.sort();
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut found = Vec::new();
    for path in paths {
        // Other files in the directory are skipped.
        let is_library = path.file_name().is_some_and(|n| n.to_string_lossy().contains(".so"));
        if !is_library || !exports_malloc(&path).unwrap_or(false) {
            continue;
        }
        let Ok(library) = by_path(&path) else { continue };
        let real = path.canonicalize()?;
        if !seen.contains(&real) {
            seen.push(real);
            found.push(library);
        }
    }
    Ok(found)
}

fn by_name(name: &str, directories: &[PathBuf]) -> Result<Found, FindError> {
    let Some(known) = known(name) else {
        let names: Vec<&str> = KNOWN.iter().map(|k| k.name).chain([GLIBC]).collect();
        return Err(FindError::Unknown { name: name.to_owned(), known: names.join(", ") });
    };
    let candidates =
        known.files.iter().flat_map(|file| directories.iter().map(move |d| d.join(file)));
    // Libraries for other processors are skipped, as in the dynamic linker.
    match candidates.into_iter().find(|path| library::check(path).is_ok()) {
        Some(path) => Ok(Found { known: Some(known), version: version(&path), path }),
        None => Err(FindError::NotInstalled {
            name: known.name.to_owned(),
            files: known.files.join(", "),
            directories: directories
                .iter()
                .map(|d| d.display().to_string())
                .collect::<Vec<_>>()
                .join(", "),
            remedy: match known.package {
                Some(package) => format!("install it (Debian, Ubuntu: apt install {package})"),
                None => format!(
                    "no distribution package has it: build it ({}) and give the library's path, \
                     or put it into a directory named by $NUMAPILOT_LIB_DIR",
                    known.source
                ),
            },
        }),
    }
}

fn by_path(path: &Path) -> Result<Found, FindError> {
    let bad = |e: io::Error| FindError::BadPath { path: path.to_owned(), cause: e.to_string() };
    library::check(path).map_err(bad)?;
    let real = path.canonicalize().map_err(bad)?;
    if !exports_malloc(&real).map_err(bad)? {
        return Err(bad(io::Error::other("it defines no malloc")));
    }
    let known = path.file_name().and_then(|n| n.to_str()).and_then(known_file);
    // Absolute, because the program may change its directory before it starts another program.
    let path = std::path::absolute(path).unwrap_or_else(|_| real.clone());
    Ok(Found { known, version: version(&real), path })
}

/// The allocator whose library has this file name, in any version.
pub(crate) fn known_file(name: &str) -> Option<&'static Known> {
    let stem = |file: &str| file.split(".so").next().unwrap_or_default().to_owned();
    // `tcmalloc` comes before `tcmalloc-minimal`, and its list includes the files of the latter.
    KNOWN.iter().rev().find(|k| k.files.iter().any(|file| stem(file) == stem(name)))
}

fn version(path: &Path) -> Option<String> {
    let real = path.canonicalize().ok()?;
    let name = real.file_name()?.to_str()?;
    let (_, version) = name.split_once(".so.")?;
    Some(version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_tells_the_allocator() {
        let name = |file: &str| known_file(file).map(|k| k.name);
        assert_eq!(name("libjemalloc.so.2"), Some("jemalloc"));
        assert_eq!(name("libtcmalloc.so.4.5.10"), Some("tcmalloc"));
        assert_eq!(name("libtcmalloc_minimal.so.4"), Some("tcmalloc-minimal"));
        assert_eq!(name("libmimalloc.so"), Some("mimalloc"));
        assert_eq!(name("libm.so.6"), None);
        assert_eq!(name(""), None);
    }

    #[test]
    fn errors_say_where_and_what_to_install() {
        let directories = [PathBuf::from("/a"), PathBuf::from("/b")];
        let error = by_name("JEMALLOC", &directories).unwrap_err().to_string();
        assert!(error.contains("libjemalloc.so.2") && error.contains("/a, /b"), "{error}");
        assert!(error.contains("apt install libjemalloc2"), "{error}");
        let error = by_name("scalloc", &directories).unwrap_err().to_string();
        assert!(error.contains("build it (https://"), "{error}");
        let error = by_name("nomalloc", &directories).unwrap_err();
        assert!(matches!(error, FindError::Unknown { .. }));
    }

    #[test]
    fn a_directory_yields_what_exports_malloc() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name);
        std::fs::write(file("libtext.so"), "/* GNU ld script */").unwrap();
        // The C library exports malloc, and it is mapped in most processes.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let libc = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
        let Some(libc) = libc.into_iter().find(|path| path.contains("/libc.so")) else {
            println!("skipped: this test is not linked to a shared C library");
            return;
        };
        std::fs::copy(libc, file("libone.so")).unwrap();
        std::os::unix::fs::symlink("libone.so", file("libsame.so")).unwrap();
        std::fs::copy(libc, file("readme")).unwrap();
        let found = in_directory(directory.path()).unwrap();
        assert_eq!(found.iter().map(|f| f.path.clone()).collect::<Vec<_>>(), [file("libone.so")]);
        assert!(in_directory(&file("none")).is_err());
    }

    #[test]
    fn no_library_is_needed_for_the_c_librarys_own() {
        assert_eq!(find(&AllocatorChoice::Inherit), Ok(None));
        assert_eq!(find(&AllocatorChoice::Named("glibc".into())), Ok(None));
    }
}
