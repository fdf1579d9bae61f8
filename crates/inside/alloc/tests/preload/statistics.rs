//! The library's statistics of its memory: the figures, the formats, and the times.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::harness::Subject;

fn case(name: &str) -> Command {
    let subject = Subject::preloaded();
    let mut command = subject.command(&subject.compile("statistics.c"));
    command.arg(name);
    command
}

fn output(mut command: Command) -> Output {
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {stdout}", output.status);
    output
}

fn text_of(name: &str) -> String {
    String::from_utf8(output(case(name)).stdout).unwrap()
}

fn errors(command: Command) -> String {
    String::from_utf8(output(command).stderr).unwrap()
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} of {value}"))
}

/// A figure of the class of 5,120 bytes, over all nodes.
fn of_5120(document: &Value, figure: &str) -> u64 {
    let nodes = document["nodes"].as_array().unwrap().iter();
    let classes = nodes.flat_map(|node| node["classes"].as_array().unwrap());
    classes.filter(|class| class["object_bytes"] == 5120).map(|class| number(class, figure)).sum()
}

#[test]
fn known_amounts_are_reported_exactly() {
    let text = text_of("known_amounts");
    let documents: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [before, held, half, none] = &documents[..] else { panic!("{text}") };

    assert_eq!(of_5120(before, "in_use"), 0);
    assert_eq!(of_5120(held, "in_use"), 3000);
    assert_eq!(of_5120(half, "in_use"), 1500);
    assert_eq!(of_5120(none, "in_use"), 0);
    let large = |document: &Value| number(&document["total"], "large_bytes");
    assert_eq!(large(held) - large(before), 4 << 20);
    assert_eq!(large(held) - large(half), 3 << 20);
    assert_eq!(large(none), large(before));
    assert_eq!(number(&none["total"], "free_bytes"), 0);

    for document in &documents {
        let total = &document["total"];
        let parts = ["in_use_bytes", "cached_bytes", "free_bytes", "returned_bytes"];
        let sum: u64 = parts.iter().map(|part| number(total, part)).sum();
        assert_eq!(sum, number(total, "reached_bytes"), "{total}");
        for class in document["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|node| node["classes"].as_array().unwrap())
        {
            let parts = ["in_use", "in_spans", "in_depots", "in_threads"];
            let sum: u64 = parts.iter().map(|part| number(class, part)).sum();
            assert_eq!(sum, number(class, "capacity"), "{class}");
        }
    }
}

#[test]
fn threads_that_allocate_at_their_end_leave_no_heap() {
    for harden in ["0", "1"] {
        let mut command = case("threads_that_allocate_at_their_end");
        let text = output({
            command.env("NUMAPILOT_ALLOC_HARDEN", harden);
            command
        });
        let text = String::from_utf8(text.stdout).unwrap();
        let documents: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let [first, last] = &documents[..] else { panic!("{text}") };
        let of = |document: &Value, figure| number(&document["total"], figure);
        for figure in ["threads", "in_use_bytes"] {
            assert_eq!(of(first, figure), of(last, figure), "{figure}");
        }
        // On machines with several nodes a thread may be the first one on its node.
        assert!(of(last, "overhead_bytes") < of(first, "overhead_bytes") + (1 << 20), "{text}");
    }
}

/// Name, labels and value of a sample line.
fn sample(line: &str) -> (String, String, u64) {
    let (metric, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = metric.split_once('{').unwrap();
    let labels = labels.strip_suffix('}').unwrap();
    for label in labels.split(',') {
        let (key, value) = label.split_once('=').unwrap();
        assert!(key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{line}");
        assert!(value.len() > 2 && value.starts_with('"') && value.ends_with('"'), "{line}");
    }
    let name_is_valid = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    assert!(name_is_valid && name.starts_with("numapilot_alloc_"), "{line}");
    (name.to_owned(), labels.to_owned(), value.parse().unwrap())
}

#[test]
fn prometheus_reads_it() {
    let text = text_of("prometheus");
    assert!(text.ends_with('\n'));
    let (mut family, mut families, mut samples) = (String::new(), BTreeSet::new(), BTreeSet::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            family = rest.split_once(' ').unwrap().0.to_owned();
            assert!(families.insert(family.clone()), "{family} twice");
            assert_eq!(lines.next().unwrap(), format!("# TYPE {family} gauge"));
            assert!(lines.peek().is_some_and(|next| next.starts_with(&family)), "{family}");
        } else {
            let (name, labels, value) = sample(line);
            assert_eq!(name, family);
            assert!(samples.insert((name.clone(), labels)), "{line} twice");
            if name == "numapilot_alloc_large_bytes" {
                assert!(value >= 1 << 20, "{line}");
            }
        }
    }
    assert!(families.contains("numapilot_alloc_class_in_use"));
}

#[test]
fn two_processes_have_no_sample_in_common() {
    let samples = || -> BTreeSet<(String, String)> {
        let text = text_of("prometheus");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(sample).map(|(name, labels, _)| (name, labels)).collect()
    };
    let (one, other) = (samples(), samples());
    assert!(one.is_disjoint(&other));
    // The kernel keeps 15 bytes of the program's name.
    let program = Subject::preloaded().compile("statistics.c");
    let name = &program.file_name().unwrap().to_str().unwrap()[..15];
    let labelled = |(_, labels): &(String, String)| {
        let pid = labels.split(',').next().and_then(|pid| pid.strip_prefix("pid=\""));
        pid.is_some_and(|pid| pid.trim_end_matches('"').parse::<u32>().is_ok())
            && labels.contains(&format!(",command=\"{name}\","))
    };
    assert!(one.iter().all(labelled), "{one:?}");
}

#[test]
fn malloc_info_is_a_document() {
    let text = text_of("xml");
    let mut open = Vec::new();
    for tag in text.split('<').skip(1).map(|rest| rest.split_once('>').unwrap().0) {
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap());
        }
    }
    assert!(open.is_empty() && text.starts_with("<malloc version=\"1\">\n"), "{text}");
}

#[test]
fn calls_of_the_c_library() {
    for name in [
        "formats_and_descriptors_are_checked",
        "mallinfo_counts",
        "mallopt_accepts_what_may_be_ignored",
    ] {
        Subject::preloaded().holds("statistics.c", name);
    }
}

#[test]
fn the_end_of_the_program_is_reported() {
    for name in ["at_the_end", "at_the_end_with_errors_closed"] {
        assert!(!errors(case(name)).contains("numapilot"), "{name}");
        let mut command = case(name);
        command.env("NUMAPILOT_ALLOC_STATS", "text");
        let text = errors(command);
        assert!(text.starts_with("numapilot: allocator of process "), "{name}: {text}");
        assert!(text.lines().any(|line| line.starts_with("   112        1")), "{text}");
    }
}

#[test]
fn what_became_another_file_is_not_written_to() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let file = fs::File::options().read(true).append(true).create(true).open(&path).unwrap();
    let mut command = case("at_the_end_with_errors_replaced");
    command.env("NUMAPILOT_ALLOC_STATS", "text").stdin(file).stderr(Stdio::piped());
    output(command);
    assert_eq!(fs::read(path).unwrap(), b"");
}

#[test]
fn a_file_is_replaced_and_no_link_followed() {
    let directory = tempfile::tempdir().unwrap();
    let (path, victim) = (directory.path().join("stats-%p"), directory.path().join("victim"));
    fs::write(&victim, "precious").unwrap();
    let mut command = case("at_the_end");
    command.env("NUMAPILOT_ALLOC_STATS", "json").env("NUMAPILOT_ALLOC_STATS_FILE", &path);
    let child = command.stdout(Stdio::null()).spawn().unwrap();
    let written = directory.path().join(format!("stats-{}", child.id()));
    assert!(child.wait_with_output().unwrap().status.success());
    let document: Value = serde_json::from_slice(&fs::read(&written).unwrap()).unwrap();
    assert_eq!(document["allocator"], "numapilot");
    assert_eq!(fs::metadata(&written).unwrap().mode() & 0o777, 0o600);

    let link = directory.path().join("link");
    symlink(&victim, &link).unwrap();
    let mut command = case("at_the_end");
    command.env("NUMAPILOT_ALLOC_STATS", "json").env("NUMAPILOT_ALLOC_STATS_FILE", &link);
    assert_eq!(errors(command), "");
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert!(fs::symlink_metadata(&link).unwrap().is_file());
    // No other file is left.
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
}

#[test]
fn a_signal_is_answered() {
    for (name, background_thread) in
        [("on_a_signal", "1"), ("on_a_signal_in_a_child", "1"), ("on_a_signal_in_a_child", "0")]
    {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stats");
        let mut command = case(name);
        command.env("NUMAPILOT_ALLOC_STATS_SIGNAL", libc::SIGUSR2.to_string());
        command.env("NUMAPILOT_ALLOC_BACKGROUND_THREAD", background_thread);
        assert_eq!(
            errors({
                command.env("NUMAPILOT_ALLOC_STATS_FILE", &path);
                command
            }),
            ""
        );
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("numapilot: allocator of process "), "{name}: {text}");
    }
}

#[test]
fn values_that_cannot_be_used_are_reported() {
    for (variable, value, cause) in [
        ("NUMAPILOT_ALLOC_STATS", "yaml", "is ignored: it must be text, json or prometheus"),
        ("NUMAPILOT_ALLOC_STATS_SIGNAL", "USR1", "is ignored: it must be the number of a signal"),
        ("NUMAPILOT_ALLOC_STATS_SIGNAL", "9", "is ignored: no such signal"),
        ("NUMAPILOT_ALLOC_STATS_SIGNAL", "-1", "is ignored: no such signal"),
        ("NUMAPILOT_ALLOC_STATS_FILE", "", "is ignored: it must be a path"),
    ] {
        let mut command = case("at_the_end");
        command.env(variable, value);
        let text = errors(command);
        assert!(text.starts_with(&format!("numapilot: {variable}={value} {cause}")), "{text}");
    }
    let mut command = case("at_the_end");
    command.env("NUMAPILOT_ALLOC_STATS", "text").env("NUMAPILOT_ALLOC_STATS_FILE", "/nowhere/x");
    assert!(errors(command).contains("=/nowhere/x: cannot be written (error 2)"));
}
