//! The malloc that a running process uses.
//!
//! Source: proc_pid_maps(5), ld.so(8): the dynamic loader resolves `malloc` first in the program,
//! then in preloaded libraries, then in the C library. An allocator that is linked into a library
//! under another name (`duckdb_je_malloc`) is not affected.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use numapilot_observe::thread_group::task_with_memory;
use serde::Serialize;

use super::{GLIBC, known_file};
use crate::prepare::own_malloc::{embedded, exports_malloc, replaces_malloc};

/// Libraries that define or import `malloc` or `operator new` in every program.
const RUNTIME: [&str; 12] = [
    "libc.so",
    "libc-",
    "ld-",
    "ld.so",
    "libstdc++",
    "libc++",
    "libm.so",
    "libm-",
    "libpthread",
    "libdl",
    "librt",
    "libgcc_s",
];

/// The malloc of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InUse {
    /// Its name if numapilot knows it, else the name of the file.
    pub name: String,
    /// The file that defines it, or `None` for the C library's own.
    pub path: Option<PathBuf>,
    /// Further allocators that are linked into the program or its libraries.
    pub embedded: Vec<Embedded>,
}

/// An allocator inside a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Embedded {
    /// The program or library.
    pub path: PathBuf,
    /// Its entry point, such as `duckdb_je_malloc`, or its name if symbols are stripped, such as
    /// `mimalloc`.
    pub symbol: String,
}

/// Determines the malloc of process `pid` from the files that it has mapped.
///
/// # Errors
/// If the process has ended or may not be inspected.
pub fn in_use(pid: i32) -> io::Result<InUse> {
    let link = |task: i32| fs::read_link(format!("/proc/{task}/exe"));
    // A first thread that has ended has no such link.
    let (task, program) = match link(pid) {
        Ok(program) => (pid, program),
        Err(_) => {
            let task = task_with_memory(pid);
            (task, link(task)?)
        }
    };
    let maps = fs::read(format!("/proc/{task}/maps"))?;
    let mut files = executable_files(&maps);
    files.retain(|file| *file != program);
    files.insert(0, program);
    Ok(among(&files))
}

/// The files whose code is mapped. Their names may have any bytes.
pub(crate) fn executable_files(maps: &[u8]) -> Vec<PathBuf> {
    let path = |line: &[u8]| {
        let (fields, path) = line.split_at(line.iter().position(|byte| *byte == b'/')?);
        let is_code = std::str::from_utf8(fields).ok()?.split_whitespace().nth(1)?.contains('x');
        is_code.then(|| PathBuf::from(OsStr::from_bytes(path)))
    };
    maps.split(|byte| *byte == b'\n')
        .filter_map(path)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// The malloc of a process with these files, the first of which is the program.
fn among(files: &[PathBuf]) -> InUse {
    let others: Vec<&PathBuf> = files.iter().filter(|file| !is_runtime(file)).collect();
    // A file that can no longer be read (deleted, or in another namespace) is skipped.
    let malloc = others.iter().find(|file| {
        let defines = if files.first() == Some(file) { replaces_malloc } else { exports_malloc };
        defines(file).unwrap_or(false)
    });
    let embedded = others.iter().filter(|file| Some(*file) != malloc).filter_map(|file| {
        let symbol = embedded(file).ok()??;
        Some(Embedded { path: (*file).clone(), symbol })
    });
    InUse {
        name: malloc.map_or_else(|| GLIBC.to_owned(), |file| name(file)),
        path: malloc.map(|file| (*file).clone()),
        embedded: embedded.collect(),
    }
}

fn name(file: &Path) -> String {
    let file = file.file_name().unwrap_or_default().to_string_lossy();
    known_file(&file).map_or_else(|| file.clone().into_owned(), |known| known.name.to_owned())
}

/// Whether a file belongs to the runtime of C or C++.
pub(crate) fn is_runtime(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    RUNTIME.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_the_c_librarys() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let found = in_use(pid).unwrap();
        assert_eq!((found.name.as_str(), found.path), (GLIBC, None));
        assert!(in_use(i32::MAX).is_err());
    }

    #[test]
    fn only_code_counts() {
        let maps = "1-2 r--p 0 0:0 1 /lib/libdata.so\n2-3 r-xp 0 0:0 1 /lib/my lib.so\n\
                    3-4 r-xp 0 0:0 0 [vdso]\n4-5 r-xp 0 0:0 1 /lib/my lib.so\n";
        assert_eq!(executable_files(maps.as_bytes()), [PathBuf::from("/lib/my lib.so")]);
        // A name that is not UTF-8 does not hide others.
        let maps = b"2-3 r-xp 0 0:0 1 /lib/\xff.so\n4-5 r-xp 0 0:0 1 /lib/my lib.so\n";
        assert_eq!(executable_files(maps).len(), 2);
    }

    #[test]
    fn the_files_of_the_runtime_are_no_allocators() {
        for file in ["/lib/libc.so.6", "/lib/libc-2.31.so", "/lib64/ld-linux-x86-64.so.2"] {
            assert!(is_runtime(Path::new(file)), "{file}");
        }
        assert!(!is_runtime(Path::new("/lib/libjemalloc.so.2")));
    }

    #[test]
    fn a_preloaded_library_is_seen() {
        use std::process::{Command, Stdio};
        let Some(found) = super::super::installed().into_iter().next() else {
            println!("skipped: no allocator is installed");
            return;
        };
        let mut child = Command::new("cat")
            .env("LD_PRELOAD", &found.path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The echo shows that the loader has finished.
        use std::io::{Read, Write};
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let seen = in_use(i32::try_from(child.id()).unwrap()).unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(seen.path.unwrap().canonicalize().unwrap(), found.path.canonicalize().unwrap());
    }
}
