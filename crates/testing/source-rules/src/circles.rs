//! Circles: files that import each other, directly or indirectly.

use std::collections::{BTreeMap, BTreeSet};

/// The circles among files, each with its files in order.
#[must_use]
pub fn circles<'a>(imports: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<Vec<&'a str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|file| (*file, reached(imports, file))).collect();
    let both = |a: &str, b: &str| {
        reached.get(a).is_some_and(|r| r.contains(b))
            && reached.get(b).is_some_and(|r| r.contains(a))
    };
    let mut found = BTreeSet::new();
    for file in imports.keys().filter(|file| both(file, file)) {
        let circle = imports.keys().filter(|other| both(file, other));
        found.insert(circle.copied().collect::<Vec<&str>>());
    }
    found.into_iter().collect()
}

/// Lists the imports among the files of a circle, one per line.
#[must_use]
pub fn describe(circle: &[&str], imports: &BTreeMap<&str, BTreeSet<&str>>) -> String {
    let mut lines = Vec::new();
    for file in circle {
        let used = imports.get(file).into_iter().flatten().filter(|used| circle.contains(used));
        lines.extend(used.map(|used| format!("  {file} imports {used}")));
    }
    lines.join("\n")
}

/// All files that a file imports, directly or indirectly.
fn reached<'a>(imports: &BTreeMap<&'a str, BTreeSet<&'a str>>, file: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&str> = vec![file];
    while let Some(file) = next.pop() {
        for used in imports.get(file).into_iter().flatten() {
            if found.insert(*used) {
                next.push(used);
            }
        }
    }
    found
}
