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

use super::{C_LIBRARY, Found, GLIBC, known_file};
use crate::preload;
use crate::prepare::own_malloc::{embedded, exports_malloc, own_malloc, replaces_malloc};
use crate::threads::obstacle_of;

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
    /// Why another malloc that is preloaded does not replace it, if so: words about the program, such
    /// as `it is statically linked`.
    #[serde(skip)]
    pub fixed: Option<String>,
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
    let files = Files::of(pid)?;
    let malloc = files.malloc();
    let others = files.others().into_iter().filter(|file| Some(*file) != malloc);
    let embedded = others.filter_map(|file| {
        let symbol = embedded(file).ok()??;
        Some(Embedded { path: file.clone(), symbol })
    });
    Ok(InUse {
        name: malloc.map_or_else(|| GLIBC.to_owned(), |file| name(file)),
        path: malloc.cloned(),
        fixed: files.mapped.first().and_then(|program| fixed(program)),
        embedded: embedded.collect(),
    })
}

/// Why a malloc that is preloaded does not replace that of a program, if so.
fn fixed(program: &Path) -> Option<String> {
    if let Some(obstacle) = obstacle_of(program) {
        return Some(obstacle.to_string());
    }
    let own = own_malloc(program).ok()??;
    Some(format!("it has its own malloc ({own})"))
}

/// The name of the malloc of process `pid`, or `None` for the C library's own.
///
/// # Errors
/// As [`in_use`].
pub(crate) fn other_malloc(pid: i32) -> io::Result<Option<String>> {
    Ok(Files::of(pid)?.malloc().map(|file| name(file)))
}

/// The files that a process has loaded.
struct Files {
    /// All with code, the program first.
    mapped: Vec<PathBuf>,
    /// What it preloads, in order, by the real path where there is one, because `maps` shows that.
    preloaded: Vec<PathBuf>,
}

impl Files {
    fn of(pid: i32) -> io::Result<Self> {
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
        let mut mapped = executable_files(&maps);
        mapped.retain(|file| *file != program);
        mapped.insert(0, program);
        let environment = fs::read(format!("/proc/{task}/environ")).unwrap_or_default();
        Ok(Self::new(mapped, &environment))
    }

    fn new(mapped: Vec<PathBuf>, environment: &[u8]) -> Self {
        let list = preload::in_environment(environment).unwrap_or_default();
        let real = |entry: &Path| entry.canonicalize().unwrap_or_else(|_| entry.to_owned());
        Self { mapped, preloaded: preload::entries(list).map(real).collect() }
    }

    /// All but those of the runtime, in the order in which the loader looks for `malloc`.
    fn others(&self) -> Vec<&PathBuf> {
        let mut others: Vec<_> = self.mapped.iter().filter(|file| !is_runtime(file)).collect();
        others.sort_by_key(|file| self.rank(file));
        others
    }

    /// The place of a file in that order: the program, what is preloaded, all else.
    fn rank(&self, file: &Path) -> usize {
        if self.mapped.first().is_some_and(|program| program == file) {
            return 0;
        }
        // A preloaded library may have a name without a path.
        let is = |entry: &PathBuf| {
            file == entry || (entry.components().count() == 1 && file.ends_with(entry))
        };
        1 + self.preloaded.iter().position(is).unwrap_or(self.preloaded.len())
    }

    /// The file with the malloc, or `None` if it is the C library.
    fn malloc(&self) -> Option<&PathBuf> {
        let c_library = self.preloaded.iter().position(|entry| entry.ends_with(C_LIBRARY));
        let is_before = |file: &Path| c_library.is_none_or(|at| self.rank(file) <= at);
        // A file that can no longer be read (deleted, or in another namespace) is skipped.
        self.others().into_iter().find(|file| {
            let defines =
                if self.mapped.first() == Some(file) { replaces_malloc } else { exports_malloc };
            is_before(file) && defines(file).unwrap_or(false)
        })
    }
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

impl Found {
    /// The name under which [`in_use`] reports a process that has loaded it. It is that of the file,
    /// which may be more precise: Debian's `tcmalloc` is the file of `tcmalloc-minimal`.
    #[must_use]
    pub fn name_in_use(&self) -> String {
        name(&self.path.canonicalize().unwrap_or_else(|_| self.path.clone()))
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
    fn the_name_in_use_is_that_of_the_file_behind_the_path() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("libtcmalloc_minimal.so.4.5.10");
        std::fs::write(&file, "").unwrap();
        let path = directory.path().join("libtcmalloc.so.4");
        std::os::unix::fs::symlink(&file, &path).unwrap();
        let found = Found { known: super::super::known("tcmalloc"), path, version: None };
        assert_eq!(found.to_string(), "tcmalloc");
        assert_eq!(found.name_in_use(), "tcmalloc-minimal");
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
        let malloc = |files: &[PathBuf], environment: &str| {
            Files::new(files.to_vec(), environment.as_bytes()).malloc().cloned()
        };
        let name = |environment: &str| malloc(&files, environment);
        assert_eq!(name("A=b\0LD_PRELOAD=\0"), Some(real.clone()));
        assert_eq!(name("LD_PRELOAD=libc.so.6"), None);
        let path = found.path.display();
        assert_eq!(name(&format!("LD_PRELOAD=libc.so.6:{path}")), None);
        assert_eq!(name(&format!("LD_PRELOAD={path} libc.so.6")), Some(real.clone()));
        // The file's name comes later in the alphabet than that of the library that is linked.
        let Some(other) = super::super::installed().into_iter().nth(1) else { return };
        let mut files = vec![PathBuf::from("/bin/cat"), real, other.path.canonicalize().unwrap()];
        files[1..].sort();
        let last = files[2].clone();
        let list = format!("LD_PRELOAD={}", last.display());
        assert_eq!(malloc(&files, &list), Some(last));
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
