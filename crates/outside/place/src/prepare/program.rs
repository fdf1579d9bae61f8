//! The program file: its path, and the settings that its kind allows.
//!
//! Source: execvp(3), ld.so(8). Only a program that resolves `malloc` at load time uses a preloaded
//! one: not a static program, and not one with its own malloc.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::Prepared;
use super::own_malloc::{exports_malloc, own_malloc};
use crate::allocators::{self, C_LIBRARY, Found, GLIBC};
use crate::elf;
use crate::threads::{Obstacle, Placement, obstacle};
use crate::{Note, PlaceError, preload};

/// The search path for programs if `PATH` is not set (execvp(3)).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// What a preloaded malloc reaches, judging by the program's file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// The program and those that it starts.
    Program,
    /// Only programs that it starts.
    Children,
    Nothing,
}

impl Prepared {
    /// Preloads the allocator, or notes why this program would not use it. Returns whether it
    /// should use it, judging by its file.
    pub(super) fn set_allocator(&mut self, found: &Found) -> Result<bool, PlaceError> {
        // Nothing else is preloaded yet, so these are the plan's own libraries.
        let other = self.environment.changed("LD_PRELOAD").and_then(malloc_in);
        let reach = self.allocator_reach(&found.to_string());
        if reach == Reach::Program
            && let Some(other) = other.filter(|other| *other != found.to_string())
        {
            self.notes.push(Note::new(
                "LD_PRELOAD",
                format!("{other} also has a malloc; {found} comes first and is used"),
                "leave one of them out",
            ));
        }
        if reach != Reach::Nothing {
            self.environment.preload(&found.path)?;
        }
        Ok(reach == Reach::Program)
    }

    /// Makes the program use the C library's own malloc, or notes why it would not. A program that
    /// is linked with another malloc finds the C library's first if the C library is preloaded. It
    /// comes last, so that it hides nothing that other preloaded libraries define. Returns as
    /// [`Self::set_allocator`].
    pub(super) fn set_glibc(&mut self) -> bool {
        let reach = self.allocator_reach(GLIBC);
        let preload = self.environment.get("LD_PRELOAD").unwrap_or_default();
        if reach == Reach::Program
            && let Some(other) = malloc_in(&preload)
        {
            self.notes.push(Note::new(
                "allocator glibc",
                format!("LD_PRELOAD already names {other}, which will be used"),
                "unset LD_PRELOAD",
            ));
            return false;
        }
        if reach != Reach::Nothing {
            self.environment.preload_last(C_LIBRARY);
        }
        reach == Reach::Program
    }

    /// What a preloaded malloc of this name reaches; adds a note if it is not the program.
    fn allocator_reach(&mut self, name: &str) -> Reach {
        let Some((cause, remedy, reaches_children)) = self.allocator_obstacle() else {
            return Reach::Program;
        };
        self.notes.push(Note::new(format!("allocator {name}"), cause, remedy));
        if reaches_children { Reach::Children } else { Reach::Nothing }
    }

    /// Cause, remedy, and whether programs started by this one may still load the library.
    fn allocator_obstacle(&self) -> Option<(String, &'static str, bool)> {
        let program = self.program_file()?;
        let binary = elf::inspect(&program).ok()?;
        let dynamic = "use a dynamically linked build, or link the allocator into the program";
        let children = "programs that it starts use the allocator";
        let (remedy, reaches_children) = match obstacle(&binary) {
            None => {
                let own = own_malloc(&binary.path).ok()??;
                let cause = format!(
                    "{} has its own malloc (it defines {own}), which a preloaded one does not \
                     replace",
                    binary.path.display()
                );
                return Some((cause, "build it without its own allocator", true));
            }
            Some(Obstacle::Static) => (dynamic, true),
            Some(Obstacle::Go) => ("Go has its own heap; only C parts would use a malloc", true),
            Some(Obstacle::Secure) => ("run it as the user to which it changes", false),
            Some(Obstacle::Foreign) => ("give a library built for it by path", false),
            Some(Obstacle::Loader(_)) => ("use a build for glibc", false),
            Some(_) => (children, true),
        };
        let cause = format!("not used by {}: {}", binary.path.display(), obstacle(&binary)?);
        Some((cause, remedy, reaches_children))
    }

    /// Places the threads, or notes why they cannot be placed.
    pub(super) fn set_threads(
        &mut self,
        order: Vec<numapilot_topology::CpuId>,
    ) -> Result<(), PlaceError> {
        if order.is_empty() {
            return Ok(());
        }
        // A program that does not exist fails when it is started. A dry run assumes that it exists.
        let placement = Placement::new(order, self.program_file().as_deref());
        for (name, value) in placement.variables(|name| self.environment.has(name)) {
            self.environment.set(name, value);
        }
        if let Some(library) = placement.library() {
            self.environment.preload(library)?;
        }
        self.notes.extend(placement.note(self.supervised));
        self.placement = Some(placement);
        Ok(())
    }

    pub(super) fn program_file(&self) -> Option<PathBuf> {
        let path = self.environment.get("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
        find_program(&self.words[0], &path)
    }
}

/// The first malloc of an `LD_PRELOAD`, as [`malloc_of`].
pub(crate) fn malloc_in(preload: &OsStr) -> Option<String> {
    preload::entries(preload).find_map(malloc_of)
}

/// The malloc of a library in `LD_PRELOAD`, if it has one: the name of its allocator, or else of its
/// file.
pub(crate) fn malloc_of(library: &Path) -> Option<String> {
    let file = library.file_name()?.to_string_lossy();
    match allocators::known_file(&file) {
        Some(known) => Some(known.name.to_owned()),
        // Only the loader can search a name without a path.
        None => exports_malloc(library).is_ok_and(|yes| yes).then(|| file.into_owned()),
    }
}

/// The file that execvp(3) would start for a name and a search path.
#[must_use]
pub fn find_program(name: &OsStr, path: &OsStr) -> Option<PathBuf> {
    let executable =
        |p: &Path| p.is_file() && rustix::fs::access(p, rustix::fs::Access::EXEC_OK).is_ok();
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(|p| executable(p));
    }
    std::env::split_paths(path)
        // An empty element is the working directory.
        .map(|d| if d.as_os_str().is_empty() { PathBuf::from(".") } else { d })
        .map(|d| d.join(name))
        .find(|p| executable(p))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_execvp_finds_them() {
        let find = |name: &str, path: &str| find_program(OsStr::new(name), OsStr::new(path));
        assert_eq!(find("sh", "/nonexistent:/bin").unwrap(), Path::new("/bin/sh"));
        assert_eq!(find("/bin/sh", "").unwrap(), Path::new("/bin/sh"));
        assert_eq!(find("passwd", "/etc"), None);
        assert_eq!(find("no-such-program-here", "/bin"), None);
    }
}
