//! The recorded machines.

use std::fs;
use std::path::Path;

use numapilot_topology::Recording;
use tempfile::TempDir;

/// Name and files of every recorded machine, in order of name.
pub fn corpus() -> Vec<(String, Recording)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut machines: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "recording"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap().parse().unwrap())
        })
        .collect();
    machines.sort_by(|a: &(String, Recording), b| a.0.cmp(&b.0));
    assert!(machines.len() >= 12, "only {} machines", machines.len());
    machines
}

/// A machine's files below a temporary directory, on an in-memory file system where there is one.
pub fn unpacked(recording: &Recording) -> TempDir {
    let directory = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
    recording.unpack(directory.path()).unwrap();
    directory
}
