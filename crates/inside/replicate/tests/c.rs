//! The library as C programs use it: runs `../c/tests/replicate.c`, linked with the shared and with
//! the static library.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::path::Path;
use std::process::Command;

const C: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/c");

/// Builds the library as it is shipped. It is not a dependency, because tests unwind, which a
/// library without `std` cannot do.
fn directory() -> std::path::PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--offline", "-p", "numapilot-replicate-c"]);
    let output = cargo.current_dir(C).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("debug")
}

fn runs(libraries: &[String]) {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]).arg(format!("{C}/include"));
    cc.arg("-o").arg(&program).arg(format!("{C}/tests/replicate.c")).args(libraries);
    match cc.output() {
        Err(error) => println!("skipped: no C compiler: {error}"),
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let output = Command::new(program).arg(directory.path().join("file")).output().unwrap();
            let message = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {message}", output.status);
            print!("{}", String::from_utf8_lossy(&output.stdout));
        }
    }
}

#[test]
fn programs_link_the_shared_library() {
    let directory = directory();
    let directory = directory.display();
    runs(&[
        format!("-L{directory}"),
        format!("-Wl,-rpath,{directory}"),
        "-l:libnumapilot_replicate.so".to_owned(),
    ]);
}

#[test]
fn programs_link_the_static_library() {
    runs(&[directory().join("libnumapilot_replicate.a").display().to_string()]);
}

#[test]
fn the_shared_library_exports_its_functions_and_nothing_else() {
    let library = directory().join("libnumapilot_replicate.so");
    let Ok(output) = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output() else {
        println!("skipped: no nm");
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let mut names: Vec<&str> =
        text.lines().filter_map(|line| line.split_whitespace().last()).collect();
    names.sort_unstable();
    let header = std::fs::read_to_string(format!("{C}/include/numapilot_replicate.h")).unwrap();
    assert_eq!(names.len(), 9, "{names:?}");
    for name in names {
        assert!(header.contains(&format!("{name}(")), "{name} is not in the header");
    }
}
