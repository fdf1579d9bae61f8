//! The reader returns whatever bytes are in whatever file of a recorded machine.
//!
//! The first byte chooses the machine, and the next two choose the file that the remaining bytes
//! replace. Run it with `cargo fuzz run read` (nightly), or on stable with `cargo fuzz run -s none
//! read`.

#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use numapilot_topology::{Recording, read};
use tempfile::TempDir;

struct Machine {
    directory: TempDir,
    files: Vec<(PathBuf, Vec<u8>)>,
}

static MACHINES: LazyLock<Vec<Machine>> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/corpus");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "recording"));
    paths.sort();
    paths.iter().map(unpack).collect()
});

fn unpack(path: &PathBuf) -> Machine {
    let recording: Recording = fs::read_to_string(path).unwrap().parse().unwrap();
    let directory = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
    recording.unpack(directory.path()).unwrap();
    let file = |(path, text): (&str, &str)| (directory.path().join(path), text.into());
    let files = recording.files().map(file).collect();
    Machine { directory, files }
}

fuzz_target!(|data: &[u8]| {
    let [machine, high, low, bytes @ ..] = data else { return };
    let machine = &MACHINES[usize::from(*machine) % MACHINES.len()];
    let file = usize::from(u16::from_be_bytes([*high, *low])) % machine.files.len();
    let (path, before) = &machine.files[file];
    fs::write(path, bytes).unwrap();
    let result = read(machine.directory.path());
    fs::write(path, before).unwrap();
    if let Ok(machine) = result {
        assert!(!machine.nodes.is_empty() && !machine.cpus.is_empty());
        assert_eq!(machine.distances.len(), machine.nodes.len());
    }
});
