//! Invalid input is refused with the reason, and leaves nothing behind.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use numapilot_lab_init::{COMPLAINT, SUITABLE};
use numapilot_test_kit::make_executable;

use crate::guests::{NUMAPILOT, boots, err, lab};

/// Expects a failure with this status and message, before anything boots.
fn refused(arguments: &[&str], status: i32, expected: &str) {
    let output = lab(arguments);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", err(&output));
    let message = err(&output);
    assert!(message.contains(expected), "{arguments:?}: {message}");
    // The cause is printed once.
    assert!(message.matches("(os error").count() <= 1, "{message}");
    assert!(output.stdout.is_empty());
}

#[test]
fn descriptions_that_make_no_machine_are_refused() {
    refused(&["run", "-m", "no-such", "--", "true"], 125, "no machine is named 'no-such'");
    let directory = tempfile::tempdir().unwrap();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let description = fs::read_to_string(repository.join("machines/machine-b.toml")).unwrap();
    let links = "between = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]";
    let asymmetric =
        "slit = [[10, 20, 20, 20], [30, 10, 20, 20], [20, 20, 10, 20], [20, 20, 20, 10]]";
    for (from, to, expected) in [
        ("memory_per_node = \"512 MiB\"", "memory_per_node = \"0 MiB\"", "lab.memory_per_node"),
        ("memory = \"16 GiB\"", "memory = \"0 GiB\"", "memory"),
        ("cpus_per_node = 2", "cpus_per_node = 0", "lab.cpus_per_node"),
        ("cpus_per_node = 2", "cpus_per_node = 64", "makes 256 CPUs; at most 255"),
        ("cores = 4", "cores = 8192", "nodes[0].cores: more than 8192 CPUs in all"),
        ("[lab]", "[laboratory]", "unknown field `laboratory`"),
        ("[lab]\ncpus_per_node = 2\nmemory_per_node = \"512 MiB\"\ncache_scale = 16", "", "[lab]"),
        ("ids = \"0-3\"", "ids = \"0-4\"", "cannot be reached"),
        (links, "between = [[0, 1], [0, 2], [1, 2]]", "cannot be reached"),
        ("hop_factors = [1.0, 1.1]", asymmetric, "the matrix must be symmetric"),
    ] {
        assert!(description.contains(from), "{from}");
        let path = directory.path().join("machine.toml");
        fs::write(&path, description.replace(from, to)).unwrap();
        refused(&["run", "-m", path.to_str().unwrap(), "--", "true"], 125, expected);
    }
    refused(&["run", "-m", "/dev/zero", "--", "true"], 125, "more than 1048576 bytes");
    for (name, text) in [("empty.toml", ""), ("cut.toml", &description[..300])] {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        refused(&["run", "-m", path.to_str().unwrap(), "--", "true"], 125, name);
    }
}

#[test]
fn arguments_that_mean_nothing_are_refused() {
    for (arguments, expected) in [
        (&["run", "-m", "cxl"][..], "<COMMAND>"),
        (&["run", "--", "true"], "--machine"),
        (&["run", "-m", "cxl", "--timeout", "0", "--", "true"], "'0' is not a duration"),
        (&["run", "-m", "cxl", "--timeout", "1e30s", "--", "true"], "is not a duration"),
        (
            &["run", "-m", "cxl", "--timeout", "9999999999999999h", "--", "true"],
            "is not a duration",
        ),
        (&["run", "-m", "cxl", "--disk", "0", "--", "true"], "is not a size"),
        (&["run", "-m", "cxl", "--cpus-per-node", "0", "--", "true"], "0 is not in 1..=64"),
        (&["run", "-m", "machine-a", "--cpus-per-node", "64", "--", "true"], "at most 255"),
        (&["run", "-m", "machine-a", "--cpus-per-node", "9", "--", "true"], "more than 64"),
        (&["run", "-m", "cxl", "--memory-per-node", "1M", "--", "true"], "16 MiB to"),
        (&["run", "-m", "cxl", "--cache-scale", "0", "--", "true"], "0 is not in 1..="),
        (&["run", "-m", "cxl", "--weights", "0=0", "--", "true"], "with a weight from 1 to 255"),
        (&["run", "-m", "cxl", "--user", "no-such-user", "--", "true"], "no-such-user"),
        (&["run", "-m", "cxl", "--json", "--no-model", "--", "true"], "--no-model"),
        (&["run", "-m", "cxl", "--seed", "x", "--", "true"], "--seed"),
        (&["run", "-m", "cxl", "--seeds", "1", "--", "true"], "--seeds"),
        (&["run", "-m", "cxl", "--time-scale", "0", "--", "true"], "--time-scale"),
        (&["run", "-m", "cxl", "--time-scale", "1e9", "--", "true"], "--time-scale"),
        (&["run", "-m", "cxl", "--autonuma-scale", "0", "--", "true"], "--autonuma-scale"),
        (&["run", "-m", "cxl", "--quantum", "1s", "--", "true"], "a quantum has 0.1us to 50us"),
        (&["run", "-m", "cxl", "--quantum", "0us", "--", "true"], "'0us' is not a duration"),
        (&["run", "-m", "cxl", "--vary", "latency=2", "--", "true"], "is not a free parameter"),
        (&["run", "-m", "cxl", "--vary", "quantum=0", "--", "true"], "a factor from 0.1 to 10"),
        (
            &["run", "-m", "cxl", "--vary", "time-scale=0.4", "--", "true"],
            "the time scale is 1, and",
        ),
        (&["mark", "begin", "x"], "this machine is not emulated"),
        (&["shell", "-m", "cxl"], "needs a terminal"),
    ] {
        refused(arguments, 125, expected);
    }
    if !boots() {
        return;
    }
    let run = |rest: &[&str], status, expected| {
        refused(&[&["run", "-m", "cxl"], rest].concat(), status, expected);
    };
    let fifos = tempfile::tempdir().unwrap();
    let fifo = fifos.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let fifo = fifo.to_str().unwrap();
    run(&["--", "no-such-program"], 127, "not found in PATH");
    run(&["--", "/no/such/program"], 127, "/no/such/program: not found in the file system");
    run(&["--", "/etc/passwd"], 126, "cannot be executed: permission denied");
    run(&["--", "/etc"], 126, "it is a directory");
    run(&["--include", "no-such", "--", "true"], 125, "--include no-such");
    run(&["--include", fifo, "--", "true"], 125, "neither a file or directory nor a program");
    run(&["--include", "/proc", "--", "true"], 125, "the guest has a /proc of its own");
    run(&["--weights", "2=3", "--", "true"], 125, "cxl has no node 2; its nodes are 0 to 1");
    run(&["--disk", "18446744073709551615", "--", "true"], 125, "give a smaller --disk");
    run(&["--disk", "9999999G", "--", "true"], 125, "give a smaller --disk");
    run(&["--svg", "/no/such/x.svg", "--", "true"], 125, "/no/such/x.svg");
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    make_executable(&script, &mut "neither\n".as_bytes());
    run(&["--", script.to_str().unwrap()], 126, "neither a program nor a script");
}

/// Runs `lab run` of `true` with another cache and PATH, without the parts that are not named.
fn with_parts(cache: &Path, path: &Path) -> String {
    let output = Command::new(NUMAPILOT)
        .args(["lab", "run", "-m", "cxl", "--", "/bin/true"])
        .env("XDG_CACHE_HOME", cache)
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", err(&output));
    err(&output)
}

/// A script that acts as QEMU when asked for its version or given a plugin.
fn pretend(directory: &Path, version: &str, plugin: &str) {
    let program = directory.join("qemu-system-x86_64");
    let script = format!(
        "#!/bin/sh\ncase $1 in --version) echo 'QEMU emulator version {version}' ;; \
         *) echo '{plugin}' >&2 ;; esac\n"
    );
    make_executable(&program, &mut script.as_bytes());
}

#[test]
fn missing_parts_are_named() {
    let cache = tempfile::tempdir().unwrap();
    let path = tempfile::tempdir().unwrap();
    let expect = |message: String, cause: &str| {
        assert!(message.contains(cause), "{message}");
        assert!(message.contains("numapilot lab setup"), "{message}");
        assert!(fs::read_dir(cache.path()).unwrap().next().is_none(), "something was left");
    };
    expect(with_parts(cache.path(), path.path()), "no qemu-system-x86_64 on PATH");
    pretend(path.path(), "7.2.22", "");
    expect(with_parts(cache.path(), path.path()), "is version 7.2.22; the lab needs 10.0 or newer");
    pretend(path.path(), "10.0.2", "plugin interface not enabled in this build");
    expect(with_parts(cache.path(), path.path()), "was built without plugins");
    pretend(path.path(), "10.0.2", &format!("{COMPLAINT}no clock; run numapilot lab setup"));
    expect(with_parts(cache.path(), path.path()), "qemu-system-x86_64: no clock");
    pretend(path.path(), "10.0.2", SUITABLE);
    expect(with_parts(cache.path(), path.path()), "no kernel for the guest in");
}

/// A cache for this test: it has the real kernel and tools, and everything else is created anew.
fn linked_cache(directory: &Path) -> PathBuf {
    let cache = directory.join("numapilot/lab");
    fs::create_dir_all(&cache).unwrap();
    let real = numapilot_lab::cache_directory().unwrap();
    for part in ["kernel", "tools"] {
        symlink(real.join(part), cache.join(part)).unwrap();
    }
    cache
}

#[test]
fn a_full_disk_is_reported_and_nothing_stays_on_it() {
    if !boots() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mount = |size: &str| {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"]).arg(directory.path());
        mount.output().is_ok_and(|output| output.status.success())
    };
    let unmount = || Command::new("umount").arg(directory.path()).status().unwrap();
    // In one case, a copy does not fit. In the other, the copies fit, but the initramfs made of
    // them does not.
    let binary = fs::metadata(NUMAPILOT).unwrap().len();
    for size in [1 << 20, binary * 3 / 2] {
        if !mount(&size.to_string()) {
            println!("skipped: mounting a tmpfs needs root");
            return;
        }
        let cache = linked_cache(directory.path());
        let output = Command::new(NUMAPILOT)
            .args(["lab", "run", "-m", "i9-7900x", "--no-model", "--", "true"])
            .env("XDG_CACHE_HOME", directory.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let left = fs::read_dir(cache.join("scratch")).unwrap().count();
        unmount();
        assert_eq!(output.status.code(), Some(125), "{}", err(&output));
        assert!(err(&output).contains("; free space there"), "{}", err(&output));
        assert_eq!(left, 0);
    }
}

#[test]
fn regions_have_names_of_their_own() {
    let long = "ü".repeat(33);
    for (name, message) in [
        ("", "cannot be the name of a region"),
        ("all", "all is the whole run"),
        (&long, "at most 64 bytes; this one has 66"),
        ("mine", "this machine is not emulated"),
    ] {
        let mut command = Command::new(NUMAPILOT);
        let output = command.args(["lab", "mark", "begin", name]).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{name}");
        assert!(err(&output).contains(message), "{}", err(&output));
    }
}
