//! Whether the threads of a program can be placed from inside, or only from outside.
//!
//! Placing from inside is better, because a thread is on its CPU before its first instruction. It
//! requires the dynamic loader of glibc with the same word size, and a program that creates threads
//! with `pthread_create`. All other programs are watched from outside.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::allocators::own_directories;
use crate::elf::{self, Binary, Kind};

/// File name of the library that places threads from inside.
pub const LIBRARY: &str = "libnumapilot_bind.so";

/// Why a library cannot place the threads of a program from inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It has no dynamic loader.
    Static,
    /// It runs with rights that the caller lacks.
    Secure,
    /// It has another loader than glibc's.
    Loader(PathBuf),
    /// It has another word size or processor.
    Foreign,
    /// It is a Go program without C parts, which creates threads with raw `clone` calls.
    Go,
    /// It is not a file that the kernel can load directly.
    Unknown,
    /// `libnumapilot_bind.so` is not installed.
    NoLibrary,
    /// The program file cannot be read.
    Unreadable(io::ErrorKind),
    /// It runs without the library, although it can load it.
    NotLoaded,
    /// It runs as a user whose processes cannot be inspected.
    OtherUser,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static => write!(f, "it is statically linked"),
            Self::Secure => write!(f, "it is set-user-ID or has file capabilities"),
            Self::Loader(path) => write!(f, "it is loaded by {}, not by glibc", path.display()),
            Self::Foreign => write!(f, "it is built for another word size or processor"),
            Self::Go => write!(f, "Go creates its threads without pthread_create"),
            Self::Unknown => write!(f, "it is not an ELF program"),
            Self::NoLibrary => write!(f, "{LIBRARY} was not found"),
            Self::Unreadable(kind) => write!(f, "its file cannot be read ({kind})"),
            Self::NotLoaded => write!(f, "its environment does not name {LIBRARY}"),
            Self::OtherUser => write!(f, "it runs as another user"),
        }
    }
}

/// The path of the library, if it is installed.
#[must_use]
pub fn library() -> Option<PathBuf> {
    own_directories().into_iter().map(|d| d.join(LIBRARY)).find(|p| p.is_file())
}

/// The obstacle to loading a library into this program file (a resolved path), if any.
#[must_use]
pub fn obstacle_of(program: &Path) -> Option<Obstacle> {
    match elf::inspect(program) {
        Ok(binary) => obstacle(&binary),
        Err(error) => Some(Obstacle::Unreadable(error.kind())),
    }
}

impl Obstacle {
    /// Whether the variable that names a library can be set nevertheless, for the programs that
    /// this one starts. A loader that cannot use the library would complain or end the program.
    #[must_use]
    pub fn spares_children(&self) -> bool {
        matches!(self, Self::Static | Self::Go)
    }
}

/// The obstacle to loading a library into this program, if any.
#[must_use]
pub fn obstacle(binary: &Binary) -> Option<Obstacle> {
    let loader = match &binary.kind {
        Kind::Other => return Some(Obstacle::Unknown),
        Kind::Static => {
            return Some(if binary.go { Obstacle::Go } else { Obstacle::Static });
        }
        Kind::Dynamic { native: false, .. } => return Some(Obstacle::Foreign),
        Kind::Dynamic { loader, .. } => loader,
    };
    let is_glibc = loader
        .file_name()
        .and_then(|name| name.to_str())
        // ld-linux-x86-64.so.2, ld-linux-aarch64.so.1; musl's is ld-musl-ARCH.so.1.
        .is_some_and(|name| name.starts_with("ld-linux"));
    if !is_glibc {
        return Some(Obstacle::Loader(loader.clone()));
    }
    // A Go program with C parts creates its threads through pthread_create.
    binary.secure.then_some(Obstacle::Secure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(loader: &str) -> Binary {
        Binary {
            path: "/x".into(),
            kind: Kind::Dynamic { loader: loader.into(), native: true },
            secure: false,
            go: false,
        }
    }

    #[test]
    fn only_native_glibc_programs_carry_the_library() {
        let glibc = binary("/lib64/ld-linux-x86-64.so.2");
        let with = |change: &dyn Fn(&mut Binary)| {
            let mut changed = glibc.clone();
            change(&mut changed);
            obstacle(&changed)
        };
        assert_eq!(obstacle(&glibc), None);
        assert_eq!(with(&|b| b.go = true), None);
        assert_eq!(with(&|b| b.secure = true), Some(Obstacle::Secure));
        assert_eq!(with(&|b| b.kind = Kind::Static), Some(Obstacle::Static));
        let go = |b: &mut Binary| (b.kind, b.go) = (Kind::Static, true);
        assert_eq!(with(&go), Some(Obstacle::Go));
        assert_eq!(with(&|b| b.kind = Kind::Other), Some(Obstacle::Unknown));
        let foreign = |b: &mut Binary| {
            b.kind = Kind::Dynamic { loader: "/lib/ld-linux.so.2".into(), native: false };
        };
        assert_eq!(with(&foreign), Some(Obstacle::Foreign));
        let musl = binary("/lib/ld-musl-x86_64.so.1");
        assert_eq!(obstacle(&musl), Some(Obstacle::Loader("/lib/ld-musl-x86_64.so.1".into())));
    }
}
