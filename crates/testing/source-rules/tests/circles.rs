//! Checks that files of a crate do not import each other in a circle, directly or indirectly.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what a test is for")]

use numapilot_source_rules::circles::{circles, describe};
use numapilot_source_rules::files::{crates, workspace};
use numapilot_source_rules::modules::Modules;

#[test]
fn no_files_of_a_crate_import_each_other_in_a_circle() {
    let root = workspace();
    let (mut checked, mut found) = (0, Vec::new());
    for folder in crates().unwrap() {
        let name = folder.strip_prefix(&root).unwrap().display().to_string();
        let sources = folder.join("src");
        if !sources.is_dir() {
            continue;
        }
        checked += 1;
        let modules = Modules::read(&sources).unwrap();
        let imports = modules.imports();
        let circles = circles(&imports);
        found.extend(
            circles.iter().map(|circle| format!("{name}:\n{}", describe(circle, &imports))),
        );
    }
    assert!(checked > 15, "only {checked} crates were found");
    assert!(found.is_empty(), "files import each other in a circle\n{}", found.join("\n"));
}

/// The circles in a crate with these files.
fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let mut modules = Modules::default();
    files.iter().for_each(|(file, text)| modules.add(file, (*text).to_owned()));
    let found = circles(&modules.imports());
    found.iter().map(|circle| circle.iter().map(|file| (*file).to_owned()).collect()).collect()
}

#[test]
fn a_circle_is_seen() {
    let root = ("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::A;");
    // Directly, by a path in code, and through a re-export of the root.
    for (a, b) in [
        ("use crate::b::B;", "use crate::a::A;"),
        ("use crate::b;\nfn f() { b::g(); }", "fn g() { super::a::f(); }"),
        ("use super::b::B;", "use crate::A;"),
    ] {
        let found = circles_of(&[root, ("a.rs", a), ("b.rs", b), ("c.rs", "use crate::a::A;")]);
        assert_eq!(found, [["a.rs", "b.rs"]], "{a} {b}");
    }
    // By a re-export on one side.
    let found = circles_of(&[
        root,
        ("a.rs", "pub(crate) use crate::b::B;"),
        ("b.rs", "use super::a::A;"),
        ("c.rs", ""),
    ]);
    assert_eq!(found, [["a.rs", "b.rs"]]);
    // Through a third file.
    let found = circles_of(&[
        root,
        ("a.rs", "use crate::b::B;"),
        ("b.rs", "use crate::c::C;"),
        ("c.rs", "use crate::{A, d::D};"),
        ("d.rs", ""),
    ]);
    assert_eq!(found, [["a.rs", "b.rs", "c.rs"]]);
}

#[test]
fn what_is_no_circle_is_not_seen() {
    for (a, b) in [
        ("use crate::b::B;", ""),
        ("use crate::b::B;", "// use crate::a::A;\n"),
        ("use crate::b::B;", "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}"),
        ("use crate::b::B;", "use std::a::A;"),
    ] {
        assert!(circles_of(&[("lib.rs", ""), ("a.rs", a), ("b.rs", b)]).is_empty(), "{b}");
    }
    // A child that uses its parent module.
    let files = [("a/mod.rs", "mod b;\nuse b::B;"), ("a/b.rs", "use super::A;\nuse crate::a::C;")];
    assert!(circles_of(&files).is_empty());
    let siblings = [("a/b.rs", "use super::c::C;"), ("a/c.rs", "use super::b::B;")];
    assert_eq!(circles_of(&siblings), [["a/b.rs", "a/c.rs"]]);
}
