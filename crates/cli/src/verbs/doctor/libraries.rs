//! Checks the libraries that are preloaded into programs: our own and the allocators. Each is
//! preloaded into a program that does nothing, because the dynamic loader ignores a library of
//! another architecture or with a missing dependency and only prints a message.

use std::path::Path;
use std::process::Command;

use numapilot_place::allocators::{self, Found, KNOWN};
use numapilot_place::threads::LIBRARY;
use numapilot_sys::bounded_output::{LIMIT, bounded_output};

use super::check::Check;

pub fn checks() -> Vec<Check> {
    let mut checks = vec![bind(&allocators::own_directories())];
    let installed = allocators::installed();
    checks.extend(installed.iter().map(|found| allocator(found, &preload(&found.path))));
    checks.extend(not_installed(&installed));
    checks
}

/// Preloads a library into a program that does nothing; `Err` has the loader's message.
fn preload(library: &Path) -> Result<(), String> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", ":"]).env("LD_PRELOAD", library);
    let output = bounded_output(shell, LIMIT).map_err(|error| format!("/bin/sh: {error}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    match stderr.lines().find(|line| line.contains("cannot be preloaded")) {
        Some(line) => Err(line.trim_start_matches("ERROR: ").to_owned()),
        None if !output.status.success() => {
            Err(format!("a shell that preloads it ends with {}: {}", output.status, stderr.trim()))
        }
        None => Ok(()),
    }
}

fn bind(directories: &[impl AsRef<Path>]) -> Check {
    const NAME: &str = "thread placement library";
    let Some(path) =
        directories.iter().map(|d| d.as_ref().join(LIBRARY)).find(|path| path.is_file())
    else {
        return Check::missing(
            NAME,
            "not found",
            format!("{LIBRARY} is neither beside numapilot nor in ../lib/numapilot"),
            "make build && sudo make install, or set NUMAPILOT_LIB_DIR to its directory",
        )
        .essential();
    };
    match preload(&path) {
        Ok(()) => Check::works(NAME, format!("tried: {}", path.display())),
        Err(cause) => Check::missing(
            NAME,
            path.display().to_string(),
            cause,
            "make clean && make build, on this machine",
        ),
    }
    .essential()
}

fn allocator(found: &Found, trial: &Result<(), String>) -> Check {
    let name = found.known.map_or("allocator", |known| known.name);
    let path = found.path.display().to_string();
    match trial {
        Ok(()) => Check::works(name, path),
        Err(cause) => Check::missing(
            name,
            path,
            cause.clone(),
            match found.known.and_then(|known| known.package) {
                Some(package) => format!("sudo apt-get install --reinstall {package}"),
                None => "build it again on this machine".to_owned(),
            },
        ),
    }
}

/// The known allocators that are not installed: one row for those with a package, one for those
/// that have to be built.
fn not_installed(installed: &[Found]) -> Vec<Check> {
    let absent = |packaged: bool| {
        KNOWN.iter().filter(move |known| {
            // Our own allocator comes with numapilot.
            known.package.is_some() == packaged
                && known.name != "numapilot"
                && !installed.iter().filter_map(|found| found.known).any(|there| {
                    there.name == known.name || there.package == known.package && packaged
                })
        })
    };
    let names = |packaged| absent(packaged).map(|known| known.name).collect::<Vec<_>>();
    let mut checks = Vec::new();
    if absent(true).next().is_some() {
        let mut packages: Vec<&str> = absent(true).filter_map(|known| known.package).collect();
        packages.dedup();
        checks.push(Check::missing(
            "more allocators",
            names(true).join(", "),
            "not installed, so tune cannot try them",
            format!("sudo apt-get install {}", packages.join(" ")),
        ));
    }
    if absent(false).next().is_some() {
        checks.push(Check::missing(
            "allocators from source",
            names(false).join(", "),
            "not installed, and Debian has no package of them",
            "build what you want to try and give its path: --allocator PATH",
        ));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::*;

    #[test]
    fn a_file_that_is_no_library_cannot_be_preloaded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(LIBRARY);
        std::fs::write(&path, "not ELF").unwrap();
        assert!(preload(&path).unwrap_err().contains("cannot be preloaded"));
        let check = bind(&[dir.path()]);
        assert_eq!((check.state, check.essential), (State::Missing, true));
    }

    #[test]
    fn no_library_says_where_it_should_be() {
        let dir = tempfile::tempdir().unwrap();
        let check = bind(&[dir.path()]);
        assert_eq!(check.found, "not found");
        assert!(check.remedy.unwrap().contains("NUMAPILOT_LIB_DIR"));
    }

    #[test]
    fn absent_allocators_name_their_packages_once() {
        let checks = not_installed(&[]);
        assert_eq!(checks.len(), 2);
        let remedy = checks[0].remedy.clone().unwrap();
        assert!(remedy.contains("libjemalloc2"), "{remedy}");
        assert_eq!(remedy.matches("libtcmalloc-minimal4").count(), 1, "{remedy}");
        assert!(checks[1].found.contains("hoard"), "{:?}", checks[1]);
    }

    #[test]
    fn a_broken_allocator_is_missing() {
        let found = Found {
            known: allocators::known("jemalloc"),
            path: "/lib/libjemalloc.so.2".into(),
            version: Some("2".into()),
        };
        // The number is the version of the interface, not of the library.
        assert_eq!(allocator(&found, &Ok(())).found, "/lib/libjemalloc.so.2");
        let check = allocator(&found, &Err("wrong ELF class".into()));
        assert_eq!(check.state, State::Missing);
        assert_eq!(check.remedy.unwrap(), "sudo apt-get install --reinstall libjemalloc2");
    }
}
