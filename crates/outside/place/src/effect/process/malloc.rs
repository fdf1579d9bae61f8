//! Inspects which malloc a process uses.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{Cause, Process, Verdict, not, unreadable};
use crate::allocators::{executable_files, is_runtime, known_file, other_malloc};
use crate::preload;
use crate::prepare::malloc_of;
use crate::prepare::own_malloc::{imports_malloc, own_malloc};
use crate::threads::obstacle_of;

impl Process {
    /// A preloaded malloc.
    pub(super) fn allocator(&self, library: &Path) -> Result<Verdict, Verdict> {
        let maps = self.text("maps")?;
        let exe = PathBuf::from(self.path("exe"));
        let name = self.name();
        // `maps` shows the real path of a file.
        let real = fs::canonicalize(library);
        let real = real.as_deref().unwrap_or(library).to_string_lossy().into_owned();
        if maps.lines().any(|line| line.ends_with(&real)) {
            if let Some(other) = self.malloc_before(library) {
                return Ok(not(
                    format!("LD_PRELOAD of {name} names {other} first, so that one is used"),
                    "look for a wrapper that adds another library to LD_PRELOAD",
                ));
            }
            return Ok(self.own_malloc(&exe).unwrap_or_else(|| self.users(&exe, &maps, library)));
        }
        // The loader maps preloaded libraries before the C library.
        if let Some(verdict) = self.without_c_library(&exe, &maps) {
            return Ok(verdict);
        }
        Ok(not(
            format!("{name} runs without it"),
            "see what its dynamic loader says with LD_DEBUG=libs, and whether LD_PRELOAD reaches \
             it (sudo and env -i remove it)",
        ))
    }

    /// The C library's own malloc.
    pub(super) fn glibc(&self) -> Result<Verdict, Verdict> {
        let maps = self.text("maps")?;
        let exe = PathBuf::from(self.path("exe"));
        if let Some(verdict) = self.without_c_library(&exe, &maps).or_else(|| self.own_malloc(&exe))
        {
            return Ok(verdict);
        }
        let other =
            other_malloc(self.pid).map_err(|error| unreadable(&self.path("maps"), &error))?;
        Ok(match (other, self.preload()) {
            (None, _) => Verdict::Held("no other malloc comes before it".to_owned()),
            // A program that writes its state into its command line may overwrite its environment.
            (Some(other), None) => Verdict::Unseen(format!(
                "{} is linked with {other}, and its environment does not show whether the C \
                 library was preloaded",
                self.name()
            )),
            (Some(other), Some(_)) => not(
                format!("{} uses {other}", self.name()),
                "look for a wrapper that changes LD_PRELOAD",
            ),
        })
    }

    /// The verdict on a program that has its own malloc.
    fn own_malloc(&self, exe: &Path) -> Option<Verdict> {
        let own = own_malloc_of(exe)?;
        Some(Verdict::Not(Cause {
            text: format!(
                "{} has its own malloc (it defines {own}), which a preloaded one does not replace",
                self.name()
            ),
            remedy: "build it without its own allocator",
            is_of_program: true,
        }))
    }

    /// The verdict on a program that never loads preloaded libraries, or has not yet loaded the C
    /// library.
    fn without_c_library(&self, exe: &Path, maps: &str) -> Option<Verdict> {
        let name = self.name();
        if let Some(obstacle) = obstacle_of(exe) {
            return Some(Verdict::Not(Cause {
                text: format!("{name} does not load it: {obstacle}"),
                remedy: "use a dynamically linked build for glibc, or link the allocator into the \
                         program",
                is_of_program: true,
            }));
        }
        let is_loaded = maps.contains("/libc.so.6") || maps.contains("/libc-");
        (!is_loaded).then(|| Verdict::Unseen(format!("{name} is still being loaded")))
    }

    /// The malloc of a library that the process preloads before this one, from the environment at
    /// exec, which its loader used.
    fn malloc_before(&self, library: &Path) -> Option<String> {
        let preload = self.preload()?;
        let libraries: Vec<&Path> = preload::entries(&preload).collect();
        let at = libraries.iter().position(|entry| *entry == library)?;
        libraries[..at].iter().copied().find_map(malloc_of)
    }

    /// The value of `LD_PRELOAD` at exec, or what the program has made of it.
    fn preload(&self) -> Option<OsString> {
        let environment = fs::read(self.path("environ")).ok()?;
        preload::in_environment(&environment).map(OsStr::to_owned)
    }

    /// Whether a file of a process that has mapped the library allocates from it. A program with a
    /// hidden malloc, or one that maps memory itself, imports no malloc.
    fn users(&self, exe: &Path, maps: &str, library: &Path) -> Verdict {
        let has = "its library is mapped";
        if imports(exe) {
            return Verdict::Held(has.to_owned());
        }
        let is_other = |file: &PathBuf| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            *file != self.image
                && file.file_name() != library.file_name()
                && !is_runtime(file)
                && !name.starts_with("libnumapilot_")
                && known_file(&name).is_none()
        };
        let mut others = executable_files(maps.as_bytes()).into_iter().filter(is_other);
        match others.find(|file| imports(file)) {
            Some(file) => {
                let file = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Verdict::Held(format!("{has}, and {file} allocates from it"))
            }
            None => Verdict::Unseen(format!(
                "its library is loaded, but {} imports no malloc: it has its own malloc, maps its \
                 memory itself, or needs none",
                self.name()
            )),
        }
    }
}

/// The program's own malloc. `None` also if the file can no longer be read.
fn own_malloc_of(exe: &Path) -> Option<&'static str> {
    thread_local!(static KNOWN: Known<Option<&'static str>> = Known::default());
    KNOWN.with(|known| once(known, exe, || own_malloc(exe).ok().flatten())).flatten()
}

/// Whether a file imports malloc. False also if the file can no longer be read.
fn imports(file: &Path) -> bool {
    thread_local!(static KNOWN: Known<bool> = Known::default());
    KNOWN.with(|known| once(known, file, || imports_malloc(file).unwrap_or(false))) == Some(true)
}

/// Cached results for files, by device and inode.
type Known<T> = RefCell<HashMap<(u64, u64), T>>;

/// Inspects each file once. Returns `None` if it does not exist.
fn once<T: Copy>(known: &Known<T>, file: &Path, look: impl FnOnce() -> T) -> Option<T> {
    let about = fs::metadata(file).ok()?;
    Some(*known.borrow_mut().entry((about.dev(), about.ino())).or_insert_with(look))
}
