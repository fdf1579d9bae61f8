//! Other C libraries and other architectures: musl, and aarch64 under emulation.

use std::fs;
use std::path::PathBuf;

use crate::harness::{Build, Subject, installed};

const MUSL: Build =
    Build { target: Some("x86_64-unknown-linux-musl"), linker: Some("musl-gcc"), release: true };

const AARCH64: Build = Build {
    target: Some("aarch64-unknown-linux-gnu"),
    linker: Some("aarch64-linux-gnu-gcc"),
    release: true,
};

/// The library for another target; prints a message if it cannot be built.
fn built(build: Build, tools: &[&str]) -> Option<PathBuf> {
    if !tools.iter().all(|tool| installed(tool)) {
        return None;
    }
    match build.directory() {
        Ok(directory) => Some(directory),
        Err(message) if message.contains("can't find crate for `core`") => {
            println!("skipped: {} is missing: rustup target add", build.target.unwrap_or_default());
            None
        }
        Err(message) => panic!("the library does not build: {message}"),
    }
}

/// There is no C++ for musl here, so the library that cases load is missing, and musl's malloc.h
/// lacks the functions for figures.
fn musl(name: &'static str, link: Vec<String>) {
    let subject = Subject { name, c: "musl-gcc", link, preload: None, ..Subject::preloaded() };
    subject.all_hold("conformance.c", &[]);
    subject.all_hold("published.c", &[]);
    subject.all_hold("scarcity.c", &["until_no_memory", "until_no_memory_in_threads"]);
    subject.all_hold("locks.c", &["threads_end_while_libraries_come_and_go"]);
    subject.all_hold("background.c", &[]);
}

#[test]
fn musl_with_the_static_library() {
    let Some(directory) = built(MUSL, &["musl-gcc"]) else { return };
    let archive = directory.join("libnumapilot_alloc.a");
    musl("musl-static", vec![archive.display().to_string(), "-static".to_owned()]);
}

#[test]
fn musl_with_the_shared_library() {
    let Some(directory) = built(MUSL, &["musl-gcc"]) else { return };
    let library = directory.join("libnumapilot_alloc.so");
    let path = format!("-Wl,-rpath,{}", directory.display());
    musl("musl-shared", vec![library.display().to_string(), path]);
}

/// The limit keeps the library's reservation of address space small. The emulator enters every page
/// of it into its tables, which takes half a minute for a terabyte.
const EMULATOR: &str = "ulimit -v 16777216; exec qemu-aarch64 -L /usr/aarch64-linux-gnu \"$@\"";

fn aarch64(name: &'static str, link: Vec<String>, preload: Option<PathBuf>) -> Subject {
    Subject {
        name,
        c: "aarch64-linux-gnu-gcc",
        cpp: "aarch64-linux-gnu-g++",
        link,
        emulator: Some(("sh", &["-c", EMULATOR, "sh"])),
        preload,
    }
}

const AARCH64_TOOLS: [&str; 3] = ["qemu-aarch64", "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++"];

/// The emulated machine with the library preloaded, if there is an emulator.
fn aarch64_preloaded() -> Option<Subject> {
    let directory = built(AARCH64, &AARCH64_TOOLS)?;
    Some(aarch64("aarch64", Vec::new(), Some(directory.join("libnumapilot_alloc.so"))))
}

// Emulation is slow, so there are two tests, which run at the same time.
#[test]
fn aarch64_with_the_library_preloaded() {
    let Some(subject) = aarch64_preloaded() else { return };
    subject.all_hold("conformance.c", &[]);
    subject.all_hold("operators.cpp", &[]);
}

#[test]
fn aarch64_with_threads_and_forks() {
    let Some(subject) = aarch64_preloaded() else { return };
    // Limitations of the emulator: a fork of a process with threads ends it, and memory of an
    // ended thread stays.
    subject.all_hold("lifecycle.cpp", &["fork_handlers_of_an_earlier_library"]);
    let mut but = vec![
        "fork_with_busy_threads",
        "fork_during_the_first_allocation",
        "children_own_their_memory",
        "detached_threads_leave_nothing",
    ];
    // The emulator does not pass on the advice against huge pages either, and the kernel gives them
    // without being asked here.
    let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    if setting.is_ok_and(|setting| setting.contains("[always]")) {
        but.push("untouched_objects_stay_untouched");
    }
    subject.all_hold("published.c", &but);
}

#[test]
fn aarch64_with_the_static_library() {
    let Some(directory) = built(AARCH64, &AARCH64_TOOLS) else { return };
    let archive = directory.join("libnumapilot_alloc.a").display().to_string();
    let subject = aarch64("aarch64-static", vec![archive, "-static".to_owned()], None);
    let output = subject.command(&subject.compile("stress.c")).args(["4", "2", "5000"]).output();
    assert!(output.unwrap().status.success());
}
