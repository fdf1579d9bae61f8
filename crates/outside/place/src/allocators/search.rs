//! The directories in which libraries are searched: first numapilot's own, then those of the
//! dynamic linker.
//!
//! Source: ld.so(8). This module reads `/etc/ld.so.conf`, which is a text file with the directories
//! from which the linker's cache is built.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The directory of the shared library that contains this code, where it is not in a program.
static BESIDE: OnceLock<PathBuf> = OnceLock::new();

/// Maximum number of files for `ld.so.conf` and its includes, which bounds a loop of includes.
const MAX_CONF_FILES: usize = 64;

/// Adds a directory to those of numapilot's own libraries: that of a shared library that contains
/// this code. It is searched before the directory of the program that has loaded it. Only the first
/// call counts.
pub fn add_own_directory(directory: PathBuf) {
    let _ = BESIDE.set(directory);
}

/// The directories in which libraries are searched, in order: `$NUMAPILOT_LIB_DIR`, that of
/// [`add_own_directory`], the directory of this binary, `../lib/numapilot` from there,
/// `$LD_LIBRARY_PATH`, the directories of `/etc/ld.so.conf`, and those of the system. Only existing
/// directories are listed, each once.
#[must_use]
pub fn library_directories() -> Vec<PathBuf> {
    let mut all = own_directories();
    if let Some(path) = env::var_os("LD_LIBRARY_PATH") {
        // For ld.so an empty element is the working directory. A library from there would not be
        // found after the program changes its directory.
        all.extend(env::split_paths(&path).filter(|p| p.is_absolute()));
    }
    all.extend(configured(Path::new("/etc/ld.so.conf")));
    let triplet = format!("{}-linux-gnu", env::consts::ARCH);
    for parent in ["/lib", "/usr/lib", "/usr/local/lib"] {
        all.push(Path::new(parent).join(&triplet));
    }
    all.extend(["/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"].map(PathBuf::from));
    let mut seen = Vec::new();
    // On merged-/usr systems /lib and /usr/lib are the same directory.
    all.retain(|d| match d.canonicalize() {
        Ok(real) if real.is_dir() && !seen.contains(&real) => {
            seen.push(real);
            true
        }
        _ => false,
    });
    all
}

/// The directories of numapilot's own libraries, whether they exist or not.
#[must_use]
pub fn own_directories() -> Vec<PathBuf> {
    let mut own: Vec<PathBuf> = env::var_os("NUMAPILOT_LIB_DIR")
        .filter(|d| !d.is_empty())
        .map(PathBuf::from)
        .and_then(|d| std::path::absolute(d).ok())
        .into_iter()
        .chain(BESIDE.get().cloned())
        .collect();
    if let Ok(exe) = env::current_exe()
        && let Some(bin) = exe.parent()
    {
        own.push(bin.to_owned());
        own.extend(bin.parent().map(|p| p.join("lib/numapilot")));
    }
    own
}

/// The directories of an `ld.so.conf` and the files that it includes.
fn configured(file: &Path) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    let mut files = vec![file.to_owned()];
    let mut next = 0;
    while next < files.len() && files.len() <= MAX_CONF_FILES {
        let text = fs::read_to_string(&files[next]).unwrap_or_default();
        let base = files[next].parent().unwrap_or(Path::new("/")).to_owned();
        next += 1;
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if let Some(pattern) =
                line.strip_prefix("include").filter(|p| p.starts_with([' ', '\t']))
            {
                files.extend(expand(&base.join(pattern.trim())));
            } else if line.starts_with('/') {
                directories.push(PathBuf::from(line));
            }
        }
    }
    directories
}

/// The files that match a path whose last component may contain one `*`.
fn expand(pattern: &Path) -> Vec<PathBuf> {
    let name = pattern.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let Some((before, after)) = name.split_once('*') else { return vec![pattern.to_owned()] };
    let Some(entries) = pattern.parent().and_then(|p| fs::read_dir(p).ok()) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .filter(|e| {
            let name = e.file_name();
            name.to_str().is_some_and(|n| {
                n.len() >= before.len() + after.len() && n.starts_with(before) && n.ends_with(after)
            })
        })
        .map(|e| e.path())
        .collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_follows_includes_and_survives_loops() {
        let root = tempfile::tempdir().unwrap();
        let conf = root.path().join("ld.so.conf");
        fs::create_dir(root.path().join("d")).unwrap();
        fs::write(&conf, "# comment\ninclude d/*.conf\ninclude ld.so.conf\n/opt/x # tail\n")
            .unwrap();
        fs::write(root.path().join("d/b.conf"), "/opt/b\n").unwrap();
        fs::write(root.path().join("d/a.conf"), "/opt/a\n").unwrap();
        fs::write(root.path().join("d/a.txt"), "/opt/no\n").unwrap();
        let found = configured(&conf);
        assert_eq!(found[0], Path::new("/opt/x"));
        assert!(found.contains(&"/opt/a".into()) && found.contains(&"/opt/b".into()));
        assert!(!found.contains(&"/opt/no".into()));
        assert!(configured(Path::new("/nonexistent")).is_empty());
    }

    #[test]
    fn every_directory_is_there_once() {
        let directories = library_directories();
        let real: Vec<_> = directories.iter().map(|d| d.canonicalize().unwrap()).collect();
        for (i, d) in real.iter().enumerate() {
            assert!(d.is_dir());
            assert!(!real[..i].contains(d), "{} twice", d.display());
        }
    }
}
