//! The layers of the allocator: a module names only modules of its own layer and of lower ones.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what a test is for")]

use std::fs;
use std::path::{Path, PathBuf};

/// The layers, from the bottom up; README.md shows them. Modules of one line form one layer.
const LAYERS: &[&[&str]] = &[
    &["sync", "os"],
    &["config"],
    &["sampling"],
    &["layout"],
    &["page_heap"],
    &["large", "central"],
    &["slab"],
    &["cache"],
    &["global"],
    &["decay"],
    &["threads"],
    &["telemetry"],
    &["lifecycle"],
    &["api"],
];

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// The top-level modules that a file's code names by `crate::`, without tests and comments.
fn named_modules(text: &str) -> Vec<&str> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let mut names = Vec::new();
    let mut rest = code;
    while let Some((before, after)) = rest.split_once("crate::") {
        rest = after;
        let line = before.rsplit('\n').next().unwrap();
        if line.trim_start().starts_with("//") {
            continue;
        }
        match after.strip_prefix('{') {
            Some(list) => names.extend(top_of_list(list)),
            None => names.push(identifier(after)),
        }
    }
    names
}

/// The identifier at the beginning of a text.
fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    &text[..end]
}

/// The first identifier of each member of a list in braces, without the opening brace.
fn top_of_list(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut names) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.push(identifier(list[start..at].trim_start()));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// References to a higher layer, and modules that are in no layer.
fn arrows_up(file: &str, text: &str) -> Vec<String> {
    let own = file.split(['/', '.']).next().unwrap();
    let Some(layer) = layer_of(own) else {
        return vec![format!("{file} is in no layer")];
    };
    let is_wrong = |name: &&str| {
        layer_of(name).is_none_or(|other| other > layer || (other == layer && *name != own))
    };
    let wrong = named_modules(text).into_iter().filter(is_wrong);
    wrong.map(|name| format!("{file} names {name}, which is no layer below its own")).collect()
}

#[test]
fn no_layer_names_a_higher_one() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    files(&sources, &mut found);
    let names: Vec<String> = found
        .iter()
        .map(|path| path.strip_prefix(&sources).unwrap().to_str().unwrap().to_owned())
        .filter(|name| name != "lib.rs")
        .collect();
    assert!(names.len() > 40, "{names:?}");
    let wrong: Vec<String> = names
        .iter()
        .flat_map(|name| arrows_up(name, &fs::read_to_string(sources.join(name)).unwrap()))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_arrow_that_goes_up_is_seen() {
    for (text, expected) in [
        ("use crate::os::kernel;\nuse crate::{config, sampling};", 0),
        ("use crate::slab::{give_back, spans};", 1),
        ("use crate::os::{kernel, lock};\nuse crate::{config, threads};", 1),
        ("use crate::{cache::{a, b}, os, decay};", 2),
        ("fn f() { crate::api::allocate(); }", 1),
        ("//! See `crate::api`.\n", 0),
        ("#[cfg(test)]\nmod tests {\n    use crate::api;\n}", 0),
        // Another layer of the same height is not a lower one.
        ("use crate::large::free;", 1),
        ("use crate::new_module::free;", 1),
    ] {
        assert_eq!(arrows_up("central/stack.rs", text).len(), expected, "{text}");
    }
    assert_eq!(arrows_up("new_module.rs", "").len(), 1);
}
