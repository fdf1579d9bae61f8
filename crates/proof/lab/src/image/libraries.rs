//! Finds the shared libraries of a program by running its dynamic loader.
//!
//! Source: ld.so(8), `--list`. Only the loader knows its cache, the run paths and the hardware
//! directories. With `--list` it maps the program but does not run it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use numapilot_place::elf::{Kind, inspect};

use crate::LabError;

/// The loader and the libraries of a program; nothing for a static program.
///
/// # Errors
/// [`LabError::NoLibrary`] when a library is not found.
pub fn libraries_of(program: &Path) -> Result<Vec<PathBuf>, LabError> {
    match inspect(program).map_err(LabError::at("read", program))?.kind {
        Kind::Dynamic { loader, .. } => {
            let mut all = list(&loader, program)?;
            all.push(loader);
            Ok(all)
        }
        Kind::Static | Kind::Other => Ok(Vec::new()),
    }
}

/// The files that a loader would load for a program or library.
///
/// # Errors
/// As [`libraries_of`].
pub fn list(loader: &Path, program: &Path) -> Result<Vec<PathBuf>, LabError> {
    let output = Command::new(loader)
        .arg("--list")
        .arg(program)
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .output()
        .map_err(LabError::at("run the dynamic loader", loader))?;
    parse(&String::from_utf8_lossy(&output.stdout)).map_err(|library| LabError::NoLibrary {
        program: program.to_owned(),
        library: library.to_owned(),
    })
}

/// Parses lines `name => path (address)` and `path (address)`; fails with the name of a library
/// that was not found.
fn parse(text: &str) -> Result<Vec<PathBuf>, &str> {
    let mut all = Vec::new();
    for line in text.lines() {
        let (name, place) = line.split_once(" => ").unwrap_or(("", line));
        let place = place.trim();
        if place.starts_with("not found") {
            return Err(name.trim());
        }
        // The vDSO (linux-vdso.so.1) has no path.
        if place.starts_with('/') {
            let path = place.rsplit_once(" (").map_or(place, |(path, _)| path);
            all.push(PathBuf::from(path));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibm.so.6 => /lib/a b/libm.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let paths = parse(text).unwrap();
        assert_eq!(paths, ["/lib/a b/libm.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from));
        assert_eq!(parse("\tlibx.so.1 => not found\n"), Err("libx.so.1"));
        assert_eq!(parse("\tstatically linked\n"), Ok(Vec::new()));
    }

    #[test]
    fn this_test_has_libraries() {
        let all = libraries_of(&std::env::current_exe().unwrap()).unwrap();
        assert!(all.iter().any(|p| p.to_string_lossy().contains("libc.so")), "{all:?}");
        assert!(all.iter().all(|p| p.is_file()));
    }
}
