//! The code that processes have mapped, from records of perf and from `/proc/PID/maps`.
//!
//! Source: perf_event_open(2), `PERF_RECORD_MMAP2` and `PERF_RECORD_FORK`; proc_pid_maps(5). perf
//! records what is mapped after sampling has begun, also by programs that end soon. What a process
//! had mapped before is read when its first sample arrives.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use numapilot_sys::ring::CodeMapping;
use procfs::process::{MMPermissions, MMapPath, MemoryMap};

use crate::thread_group::maps;

/// A file whose code runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodeFile {
    /// Its path as the process sees it, or the kernel's name for code without a file (`[vdso]`,
    /// `//anon`).
    pub path: PathBuf,
    /// Its inode, which identifies the file when the path is opened; 0 without a file.
    pub inode: u64,
}

/// The mappings of all processes, the newest of each last.
#[derive(Debug, Default)]
pub struct AddressSpaces {
    processes: HashMap<i32, Vec<CodeMapping>>,
}

impl AddressSpaces {
    /// Notes a mapping.
    pub fn add(&mut self, pid: i32, mapping: CodeMapping) {
        self.of(pid).push(mapping);
    }

    /// Notes a process that begins with its parent's mappings.
    pub fn fork(&mut self, pid: i32, parent: i32) {
        if pid != parent {
            let mappings = self.of(parent).clone();
            self.processes.insert(pid, mappings);
        }
    }

    /// The file and the offset in it of an address, or `None` if it is not known to be mapped.
    pub fn find(&mut self, pid: i32, address: u64) -> Option<(CodeFile, u64)> {
        // A newer mapping replaces what was there before.
        let mapping = self.of(pid).iter().rev().find(|mapping| {
            address.checked_sub(mapping.start).is_some_and(|within| within < mapping.bytes)
        })?;
        let file = CodeFile { path: mapping.path.clone(), inode: mapping.inode };
        Some((file, address - mapping.start + mapping.offset))
    }

    /// The mappings of a process; read from the kernel if none is known.
    fn of(&mut self, pid: i32) -> &mut Vec<CodeMapping> {
        self.processes.entry(pid).or_insert_with(|| mapped(pid))
    }
}

/// The code that a process has mapped now; none if it has ended or may not be inspected.
fn mapped(pid: i32) -> Vec<CodeMapping> {
    let is_code = |map: &MemoryMap| map.perms.contains(MMPermissions::EXECUTE);
    let maps = maps(pid).unwrap_or_default();
    maps.into_iter().filter(is_code).map(|map| code_mapping(&map)).collect()
}

fn code_mapping(map: &MemoryMap) -> CodeMapping {
    let path = match &map.pathname {
        MMapPath::Path(path) => path.clone(),
        MMapPath::Vdso => Path::new("[vdso]").to_owned(),
        _ => Path::new("//anon").to_owned(),
    };
    CodeMapping {
        start: map.address.0,
        bytes: map.address.1.saturating_sub(map.address.0),
        offset: map.offset,
        inode: map.inode,
        path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, path: &str) -> CodeMapping {
        CodeMapping { start, bytes: 100, offset: 1000, inode: 1, path: path.into() }
    }

    /// A process that does not exist, so nothing is read from the kernel.
    const NOBODY: i32 = i32::MAX;

    #[test]
    fn the_newest_mapping_counts_and_children_inherit() {
        let mut spaces = AddressSpaces::default();
        assert_eq!(spaces.find(NOBODY, 150), None);
        spaces.add(NOBODY, mapping(100, "/a"));
        spaces.add(NOBODY, mapping(300, "/b"));
        spaces.fork(NOBODY - 1, NOBODY);
        spaces.add(NOBODY, mapping(150, "/c"));
        let mut at = |pid, address| {
            spaces.find(pid, address).map(|(file, at)| (file.path.display().to_string(), at))
        };
        assert_eq!(at(NOBODY, 149), Some(("/a".to_owned(), 1049)));
        assert_eq!(at(NOBODY, 150), Some(("/c".to_owned(), 1000)));
        assert_eq!(at(NOBODY - 1, 150), Some(("/a".to_owned(), 1050)));
        assert_eq!(at(NOBODY, 399), Some(("/b".to_owned(), 1099)));
        assert_eq!((at(NOBODY, 99), at(NOBODY, 400)), (None, None));
    }

    #[test]
    fn what_was_mapped_before_is_read() {
        let here = what_was_mapped_before_is_read as fn() as usize as u64;
        let mut spaces = AddressSpaces::default();
        let me = std::process::id().cast_signed();
        let (file, _) = spaces.find(me, here).unwrap();
        assert_eq!(file.path, std::env::current_exe().unwrap());
        assert_ne!(file.inode, 0);
    }
}
