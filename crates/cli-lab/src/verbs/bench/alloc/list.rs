//! Lists the tests and allocators that would be compared.

use std::io::Write;

use numapilot_cli_kit::terminal::{BOLD, DIM, Terminal, table, trimmed};
use serde::Serialize;

use super::field::Field;

/// A test in the JSON form.
#[derive(Serialize)]
struct TestLine<'a> {
    name: &'a str,
    about: &'a str,
    command: Vec<String>,
}

/// An allocator in the JSON form.
#[derive(Serialize)]
struct AllocatorLine<'a> {
    name: &'a str,
    version: Option<&'a str>,
    path: Option<String>,
}

/// Prints the tests, those that are missing with the reason, and the allocators.
pub fn print(terminal: &Terminal, field: &Field, json: bool) -> anyhow::Result<()> {
    let allocators: Vec<AllocatorLine<'_>> = field
        .candidates
        .iter()
        .map(|c| AllocatorLine {
            name: &c.name,
            version: c.version.as_deref(),
            path: c.path.as_ref().map(|path| path.display().to_string()),
        })
        .collect();
    if json {
        let words = |words: &[std::ffi::OsString]| {
            words.iter().map(|w| w.to_string_lossy().into_owned()).collect()
        };
        let tests = field.tests.iter().map(|test| TestLine {
            name: &test.name,
            about: &test.about,
            command: words(&test.command),
        });
        let tests: Vec<TestLine<'_>> = tests.collect();
        terminal.json(&serde_json::json!({
            "workload": "alloc-suite", "threads": field.threads[0],
            "reference": field.candidates[field.reference].name,
            "allocators": allocators, "tests": tests, "missing": field.missing,
        }))?;
        return Ok(());
    }
    let mut out = terminal.out();
    let mut rows = table(&["test", "what it stresses"], &[]);
    for test in &field.tests {
        rows.add_row([test.name.as_str(), &test.about]);
    }
    if !field.tests.is_empty() {
        writeln!(out, "{}\n", trimmed(&rows))?;
    }
    for missing in &field.missing {
        writeln!(out, "{DIM}{}: {}{DIM:#}", missing.test, missing.reason)?;
    }
    if !field.missing.is_empty() {
        writeln!(out)?;
    }
    let mut rows = table(&["allocator", "file version", "library"], &[]);
    for line in &allocators {
        let path = line.path.as_deref().unwrap_or("the C library's own");
        rows.add_row([line.name, line.version.unwrap_or(""), path]);
    }
    writeln!(out, "{}\n", trimmed(&rows))?;
    let reference = &field.candidates[field.reference].name;
    writeln!(out, "{BOLD}numapilot bench alloc suite{BOLD:#} compares them with {reference}.")?;
    Ok(())
}
