//! The malloc that a running process uses.
//!
//! Source: proc_pid_maps(5), ld.so(8): the dynamic loader resolves `malloc` first in the program,
//! then in preloaded libraries, then in those that the program is linked with. An allocator that is
//! linked into a library under another name (`duckdb_je_malloc`) is not affected.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use numapilot_observe::thread_group::task_with_memory;
use serde::Serialize;

use super::{C_LIBRARY, GLIBC, known_file};
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
    let environment = fs::read(format!("/proc/{task}/environ")).unwrap_or_default();
    Ok(among(&files, &preloaded(&environment)))
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

/// The libraries that a process preloads, in order, from its environment.
fn preloaded(environment: &[u8]) -> Vec<PathBuf> {
    let variables = environment.split(|byte| *byte == 0);
    let list = variables.filter_map(|v| v.strip_prefix(b"LD_PRELOAD=")).next();
    let entries = list.unwrap_or_default().split(|byte| b": \t\n".contains(byte));
    entries.filter(|e| !e.is_empty()).map(|e| PathBuf::from(OsStr::from_bytes(e))).collect()
}

/// The malloc of a process with these files, the first of which is the program, and these preloaded
/// libraries.
fn among(files: &[PathBuf], preloaded: &[PathBuf]) -> InUse {
    let mut others: Vec<&PathBuf> = files.iter().filter(|file| !is_runtime(file)).collect();
    // `maps` shows the real path of a file, and a preloaded one may have a name without a path.
    let real: Vec<PathBuf> =
        preloaded.iter().map(|p| p.canonicalize().unwrap_or_else(|_| p.clone())).collect();
    let is = |file: &Path, entry: &PathBuf| {
        file == entry || (entry.components().count() == 1 && file.ends_with(entry))
    };
    let rank = |file: &Path| match files.first() {
        Some(program) if program == file => 0,
        _ => 1 + real.iter().position(|entry| is(file, entry)).unwrap_or(real.len()),
    };
    others.sort_by_key(|file| rank(file));
    let c_library = real.iter().position(|entry| entry.ends_with(C_LIBRARY));
    let after_c_library = |file: &Path| c_library.is_some_and(|at| rank(file) > at);
    // A file that can no longer be read (deleted, or in another namespace) is skipped.
    let malloc = others.iter().find(|file| {
        if after_c_library(file) {
            return false;
        }
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
    fn the_loaders_order_decides() {
        let Some(found) = super::super::installed().into_iter().next() else {
            println!("skipped: no allocator is installed");
            return;
        };
        let real = found.path.canonicalize().unwrap();
        // Linked with the allocator, and preloaded or not.
        let files = [PathBuf::from("/bin/cat"), real.clone()];
        let name = |preload: &[u8]| among(&files, &preloaded(preload)).path;
        assert_eq!(name(b"A=b\0LD_PRELOAD=\0"), Some(real.clone()));
        assert_eq!(name(b"LD_PRELOAD=libc.so.6"), None);
        let both = |list: &str| name(list.as_bytes());
        let path = found.path.display();
        assert_eq!(both(&format!("LD_PRELOAD=libc.so.6:{path}")), None);
        assert_eq!(both(&format!("LD_PRELOAD={path} libc.so.6")), Some(real.clone()));
        // The file's name comes later in the alphabet than that of the library that is linked.
        let Some(other) = super::super::installed().into_iter().nth(1) else { return };
        let mut files = vec![PathBuf::from("/bin/cat"), real, other.path.canonicalize().unwrap()];
        files[1..].sort();
        let last = files[2].clone();
        let list = format!("LD_PRELOAD={}", last.display());
        assert_eq!(among(&files, &preloaded(list.as_bytes())).path, Some(last));
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
