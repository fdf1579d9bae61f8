//! The layers of the allocator: a module names only modules of its own layer and of lower ones.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what a test is for")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use numapilot_source_rules::files::rust_files;
use numapilot_source_rules::modules::{from_root, module_of};
use numapilot_source_rules::paths::Paths;

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

/// The modules at the top of the crate that a file's code names, without its tests: by `crate::`,
/// or by `super::` from there.
fn named_modules(file: &str, text: &str) -> BTreeSet<String> {
    let Paths { imports, exports, code } = Paths::of(text);
    let declared = imports.into_iter().chain(exports).map(|(_, path)| path);
    let module = module_of(file);
    let paths = declared.chain(code).filter_map(|path| from_root(&module, &path));
    paths.filter_map(|path| path.first().cloned()).collect()
}

/// References to a higher layer, and modules that are in no layer.
fn arrows_up(file: &str, text: &str) -> Vec<String> {
    let own = file.split(['/', '.']).next().unwrap();
    let Some(layer) = layer_of(own) else {
        return vec![format!("{file} is in no layer")];
    };
    let is_wrong = |name: &String| {
        layer_of(name).is_none_or(|other| other > layer || (other == layer && name != own))
    };
    let wrong = named_modules(file, text).into_iter().filter(is_wrong);
    wrong.map(|name| format!("{file} names {name}, which is not in a lower layer")).collect()
}

#[test]
fn no_layer_names_a_higher_one() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let names: Vec<String> = rust_files(&sources)
        .unwrap()
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
        // A different layer of the same height is not a lower one.
        ("use crate::large::free;", 1),
        ("use crate::new_module::free;", 1),
    ] {
        assert_eq!(arrows_up("central/stack.rs", text).len(), expected, "{text}");
    }
    for (file, text, expected) in [
        ("sampling.rs", "use super::layout::size_class::QUANTUM;", 1),
        ("sampling.rs", "fn f() { super::api::allocate(); }", 1),
        ("layout/mod.rs", "use super::api::Errno;", 1),
        ("layout/space.rs", "use super::super::slab::spans;", 1),
        ("layout/space.rs", "use super::super::os::kernel;\nuse super::slab;", 0),
    ] {
        assert_eq!(arrows_up(file, text).len(), expected, "{file} {text}");
    }
    assert_eq!(arrows_up("new_module.rs", "").len(), 1);
}
