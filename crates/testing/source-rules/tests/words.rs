//! Checks that names use the terms of the glossary and not the words that these have replaced.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what a test is for")]

use std::collections::BTreeSet;
use std::fs;

use numapilot_source_rules::files::{rust_files, workspace};
use numapilot_source_rules::tokens::{is_name, tokens};

/// Retired words, each with the term that replaces it. Words are compared in lower case, in the
/// singular and the plural; one with a space stands for consecutive parts of a name. Words that have
/// other uses, such as the kept result of a cache, are not in the list.
const RETIRED: [(&str, &str); 25] = [
    ("agenda", "trial queue"),
    ("besides", "implicit includes"),
    ("carrier", "controllers and links"),
    ("contest", "benchmark run, contended lines"),
    ("contestant", "candidate"),
    ("conversation", "guest session"),
    ("crew", "pinned threads, client pool, external pinner"),
    ("crowding", "convoy"),
    ("cure", "mitigation"),
    ("gift", "object to share"),
    ("grain", "quantum"),
    ("hoard", "overflow"),
    ("illness", "pathology"),
    ("ledger", "CPU-occupancy table"),
    ("manned", "thread nodes"),
    ("pulse", "boot watchdog"),
    ("residence", "migration cooldown"),
    ("said", "message, stderr"),
    ("seat", "CPU slot, CPU assignment"),
    ("shelf", "depot shard"),
    ("sit down", "pin"),
    ("stand up", "unpin"),
    ("surroundings", "run context"),
    ("told", "message"),
    ("turnstile", "schedule"),
];

/// The words of a name; they are the same for `sit_down`, `SitDown` and `SIT_DOWN`.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = '_';
    for c in name.chars() {
        if c != '_' {
            if before == '_' || (c.is_uppercase() && !before.is_uppercase()) {
                words.push(String::new());
            }
            words.last_mut().unwrap().extend(c.to_lowercase());
        }
        before = c;
    }
    words
}

/// The plural of an English noun.
fn plural(noun: &str) -> String {
    match noun.strip_suffix('f') {
        Some(stem) => format!("{stem}ves"),
        None => format!("{noun}s"),
    }
}

/// The retired words of a name.
fn retired_words(name: &str) -> Vec<String> {
    let words = words(name);
    let is_there = |retired: &str| {
        let parts: Vec<&str> = retired.split(' ').collect();
        words.windows(parts.len()).any(|some| {
            some.iter().zip(&parts).all(|(word, part)| word == part || *word == plural(part))
        })
    };
    let found = RETIRED.iter().filter(|(retired, _)| is_there(retired));
    found.map(|(retired, term)| format!("{name}: '{retired}' is {term}")).collect()
}

#[test]
fn no_name_has_a_retired_word() {
    let root = workspace();
    let (mut checked, mut found) = (0, BTreeSet::new());
    for path in rust_files(&root.join("crates")).unwrap() {
        let file = path.strip_prefix(&root).unwrap().display().to_string();
        if file.ends_with("tests/words.rs") {
            continue;
        }
        checked += 1;
        let text = fs::read_to_string(&path).unwrap();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let names = tokens(&text).into_iter().filter(|token| is_name(token));
        let wrong = names.chain([stem]).flat_map(retired_words);
        found.extend(wrong.map(|wrong| format!("{file}: {wrong}")));
    }
    assert!(checked > 400, "only {checked} files were found");
    assert!(found.is_empty(), "{}", found.into_iter().collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_retired_word_is_seen_in_every_form_of_a_name() {
    for name in
        ["seat", "CpuSeat", "NO_SEAT", "take_seats", "sit_down", "SitDown", "shelves", "ledgers"]
    {
        assert_eq!(retired_words(name).len(), 1, "{name}");
    }
    for name in ["seating", "stands", "sit_here", "procure", "cpu_slot", "crewed"] {
        assert!(retired_words(name).is_empty(), "{name}");
    }
}
