//! Tests of the user's manual: every page is listed, every link has a target, every verb has a
//! page.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Targets of the Markdown links `[..](target)` and `<img src="target">`, code left out.
fn links(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for (opening, closing) in [("](", ')'), ("src=\"", '"')] {
            for rest in line.split(opening).skip(1) {
                found.extend(rest.split(closing).next().map(str::to_owned));
            }
        }
    }
    found
}

fn pages() -> BTreeSet<String> {
    fs::read_dir(repository().join("docs/src"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".md") && name != "SUMMARY.md")
        .collect()
}

#[test]
fn the_table_of_contents_lists_every_page_once() {
    let listed = links(&read(&repository().join("docs/src/SUMMARY.md")));
    // An empty target is a chapter that is announced and not yet written.
    let listed: Vec<String> = listed.into_iter().filter(|link| !link.is_empty()).collect();
    let distinct: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(distinct.len(), listed.len(), "a page is listed twice in SUMMARY.md");
    assert_eq!(distinct, pages());
}

#[test]
fn links_lead_somewhere() {
    let root = repository();
    let documents = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        .iter()
        .map(|name| root.join(name))
        .chain(pages().into_iter().map(|page| root.join("docs/src").join(page)))
        .filter(|path| path.exists());
    for document in documents {
        for link in links(&read(&document)) {
            let target = link.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let file = document.parent().unwrap().join(target);
            assert!(file.exists(), "{}: link to {link}", document.display());
        }
    }
}

/// Verbs as `--help` lists them, without those that speak of numapilot itself.
fn verbs() -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_numapilot")).arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    help.lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .filter(|verb| !["help", "man", "completions"].contains(&verb.as_str()))
        .collect()
}

#[test]
fn every_verb_has_a_page() {
    let verbs = verbs();
    assert!(verbs.contains(&"doctor".to_owned()), "{verbs:?}");
    let pages = pages();
    for verb in verbs {
        assert!(pages.contains(&format!("{verb}.md")), "docs/src/{verb}.md is missing");
    }
}

#[test]
fn every_variable_of_the_libraries_is_documented() {
    let page = read(&repository().join("docs/src/environment.md"));
    for variable in numapilot_bind::env::TABLE {
        let row = format!("| `{}` |", variable.name);
        assert!(page.lines().any(|line| line.starts_with(&row)), "environment.md lacks {row}");
    }
}

#[test]
fn links_are_found_outside_code_only() {
    let text = "a [b](c.md) and [d](e.md#f)\n```\n[no](no.md)\n```\n<img src=\"g.svg\">";
    assert_eq!(links(text), ["c.md", "e.md#f", "g.svg"]);
}
