//! Damages the files of recorded machines. The reader must return a sensible machine or an error
//! that names a file, and never panic.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use numapilot_topology::{Machine, Recording, read};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;
use tempfile::TempDir;

#[derive(Clone, Debug)]
enum Damage {
    Delete,
    MakeDirectory,
    /// Keep this percentage of the text.
    Truncate(usize),
    /// Overwrite the text with these bytes, starting at this percentage of it.
    Garble(usize, Vec<u8>),
    Replace(String),
}

fn damage() -> impl Strategy<Value = Damage> {
    // Texts in the right form, with too much or too little in them.
    let form = "[0-9]{0,12}|[0-9]{1,5}-[0-9]{1,5}|-1|0-65535|0,2-4,8000-9000|4294967295|[0-9]{1,20}K|\
                (Node 0 )?MemTotal: [0-9]{0,22} kB\nMemFree: 1 kB";
    prop_oneof![
        Just(Damage::Delete),
        Just(Damage::MakeDirectory),
        (0..100usize).prop_map(Damage::Truncate),
        (0..100usize, proptest::collection::vec(any::<u8>(), 1..20))
            .prop_map(|(at, bytes)| Damage::Garble(at, bytes)),
        form.prop_map(Damage::Replace),
    ]
}

struct Unpacked {
    directory: TempDir,
    files: Vec<String>,
}

fn unpack((_, recording): (String, Recording)) -> Unpacked {
    let directory = common::unpacked(&recording);
    let files = recording.files().map(|(path, _)| path.to_owned()).collect();
    Unpacked { directory, files }
}

/// The only test in this file: it changes the files in place and restores them.
#[test]
fn damage_gives_a_machine_or_an_error() {
    // Not a static, which would leave the files behind.
    let machines: Vec<Unpacked> = common::corpus().into_iter().map(unpack).collect();
    let any = (any::<Index>(), any::<Index>(), damage());
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let result = TestRunner::new(config).run(&any, |(machine, file, damage)| {
        let machine = &machines[machine.index(machines.len())];
        let root = machine.directory.path();
        let path = root.join(&machine.files[file.index(machine.files.len())]);
        let before = fs::read(&path).unwrap();
        apply(&damage, &path, &before);
        let result = read(root);
        restore(&path, &before);
        match result {
            Ok(machine) => is_sensible(&machine)?,
            Err(error) => {
                let named = error.to_string().starts_with(root.to_str().unwrap());
                prop_assert!(named, "{}", error);
            }
        }
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

fn apply(damage: &Damage, path: &PathBuf, before: &[u8]) {
    let share = |percent: usize| before.len() * percent / 100;
    match damage {
        Damage::Delete => fs::remove_file(path).unwrap(),
        Damage::MakeDirectory => {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        }
        Damage::Truncate(percent) => fs::write(path, &before[..share(*percent)]).unwrap(),
        Damage::Garble(percent, bytes) => {
            let mut text = before.to_vec();
            let start = share(*percent);
            let end = text.len().min(start + bytes.len());
            text.splice(start..end, bytes.iter().copied());
            fs::write(path, text).unwrap();
        }
        Damage::Replace(text) => fs::write(path, text).unwrap(),
    }
}

fn restore(path: &Path, before: &[u8]) {
    if path.is_dir() {
        fs::remove_dir(path).unwrap();
    }
    fs::write(path, before).unwrap();
}

fn is_sensible(machine: &Machine) -> Result<(), TestCaseError> {
    let nodes = machine.nodes.len();
    prop_assert!((1..=1024).contains(&nodes));
    prop_assert!((1..=8192).contains(&machine.cpus.len()));
    prop_assert!(machine.nodes.is_sorted_by(|a, b| a.id < b.id));
    prop_assert!(machine.cpus.is_sorted_by(|a, b| a.id < b.id));
    prop_assert_eq!(machine.distances.len(), nodes);
    prop_assert!(machine.distances.iter().all(|row| row.len() == nodes));
    let online = machine.online_cpus();
    prop_assert!(machine.allowed.cpus.is_subset(&online));
    prop_assert!(machine.allowed.nodes.is_subset(&machine.memory_nodes()));
    prop_assert!(machine.nodes.iter().all(|node| node.cpus.is_subset(&online)));
    prop_assert!(machine.caches.iter().all(|cache| cache.cpus.is_subset(&online)));
    for cpu in &machine.cpus {
        prop_assert!(cpu.siblings.contains(cpu.id));
        prop_assert!(cpu.node.is_none_or(|node| !cpu.online || machine.node(node).is_some()));
    }
    Ok(())
}
