//! The kind of a program file, which tells whether a library can be preloaded.
//!
//! Source: elf(5), ld.so(8) ("secure-execution mode"), execve(2) (`#!`).

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{EM_386, EM_AARCH64, EM_X86_64, FileHeader32, FileHeader64, Machine, PT_NOTE};
use object::read::elf::{FileHeader, ProgramHeader};
use object::read::{ReadCache, ReadRef};

/// Maximum number of nested scripts, as in the kernel (`BINPRM`).
const MAX_SCRIPTS: usize = 4;
/// Bytes of a `#!` line that the kernel reads (`BINPRM_BUF_SIZE`).
const SCRIPT_LINE: usize = 256;

/// A program file. For a script, that of its interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// The file that the kernel loads.
    pub path: PathBuf,
    /// Its kind.
    pub kind: Kind,
    /// Whether the kernel runs it with rights that the caller lacks, in which case the dynamic
    /// loader ignores `LD_PRELOAD`.
    pub secure: bool,
    /// Whether it has the note of the Go linker.
    pub go: bool,
}

/// How the kernel loads a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Loaded by this dynamic loader.
    Dynamic {
        /// The loader's path, for instance `/lib64/ld-linux-x86-64.so.2`.
        loader: PathBuf,
        /// Whether its word size and processor are numapilot's own.
        native: bool,
    },
    /// It has no dynamic loader.
    Static,
    /// It is not an ELF file, so the kernel cannot load it directly.
    Other,
}

/// Reads a program file and, for a script, its interpreter.
///
/// # Errors
/// If a file cannot be read (for instance `/proc/PID/exe` of another user).
pub fn inspect(path: &Path) -> io::Result<Binary> {
    let mut path = path.to_owned();
    for _ in 0..MAX_SCRIPTS {
        match interpreter(&path)? {
            Some(line) => path = line.interpreter,
            None => break,
        }
    }
    let file = File::open(&path)?;
    let secure = is_secure(&path, &file.metadata()?)?;
    let cache = ReadCache::new(file);
    let (kind, go) = parse(&cache).unwrap_or((Kind::Other, false));
    Ok(Binary { path, kind, secure, go })
}

/// A `#!` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptLine {
    /// The program that the kernel starts for the script.
    pub interpreter: PathBuf,
    /// The rest of the line, which that program gets as one argument. It may be empty.
    pub argument: OsString,
}

impl ScriptLine {
    /// The program that `env NAME` finds on PATH, or `None` for another interpreter.
    #[must_use]
    pub fn named_by_env(&self) -> Option<&OsStr> {
        if self.interpreter.file_name()? != "env" {
            return None;
        }
        // `-S` and assignments may precede it (env(1)).
        let mut words = self.argument.as_bytes().split(u8::is_ascii_whitespace);
        words.find(|w| !w.is_empty() && w[0] != b'-' && !w.contains(&b'=')).map(OsStr::from_bytes)
    }
}

/// The `#!` line of a script, or `None` for any other file.
///
/// # Errors
/// If the file cannot be read.
pub fn interpreter(path: &Path) -> io::Result<Option<ScriptLine>> {
    let mut start = Vec::with_capacity(SCRIPT_LINE);
    File::open(path)?.take(SCRIPT_LINE as u64).read_to_end(&mut start)?;
    let Some(line) = start.strip_prefix(b"#!") else { return Ok(None) };
    let line = line.split(|b| *b == b'\n').next().unwrap_or_default().trim_ascii();
    let end = line.iter().position(|b| *b == b' ' || *b == b'\t').unwrap_or(line.len());
    let (name, argument) = line.split_at(end);
    Ok((!name.is_empty()).then(|| ScriptLine {
        interpreter: PathBuf::from(OsStr::from_bytes(name)),
        argument: OsStr::from_bytes(argument.trim_ascii()).to_owned(),
    }))
}

/// Whether `execve` would change the caller's rights. For the real user root, neither set-user-ID
/// to root nor file capabilities change them.
fn is_secure(path: &Path, metadata: &fs::Metadata) -> io::Result<bool> {
    const SET_UID: u32 = 0o4000;
    const SET_GID: u32 = 0o2010;
    let mode = metadata.permissions().mode();
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    Ok(mode & SET_UID != 0 && metadata.uid() != uid
        || mode & SET_GID == SET_GID && metadata.gid() != gid
        || uid != 0 && has_capabilities(path)?)
}

fn has_capabilities(path: &Path) -> io::Result<bool> {
    use rustix::io::Errno;
    let mut none = [0u8; 0];
    match rustix::fs::getxattr(path, "security.capability", &mut none) {
        Ok(size) => Ok(size > 0),
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

fn parse<'data, R: ReadRef<'data>>(data: R) -> Option<(Kind, bool)> {
    if let Ok(header) = FileHeader64::<Endianness>::parse(data) {
        let native = size_of::<usize>() == 8;
        return segments(header, data, native);
    }
    let header = FileHeader32::<Endianness>::parse(data).ok()?;
    segments(header, data, size_of::<usize>() == 4)
}

fn segments<'data, E, R>(header: &E, data: R, same_size: bool) -> Option<(Kind, bool)>
where
    E: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let endian = header.endian().ok()?;
    let (mut kind, mut go) = (Kind::Static, false);
    for segment in header.program_headers(endian, data).ok()? {
        if let Ok(Some(loader)) = segment.interpreter(endian, data) {
            let native = same_size && is_own_processor(header.e_machine(endian));
            kind = Kind::Dynamic { loader: PathBuf::from(OsStr::from_bytes(loader)), native };
        }
        if segment.p_type(endian) == PT_NOTE
            && let Ok(Some(mut notes)) = segment.notes(endian, data)
        {
            while let Ok(Some(note)) = notes.next() {
                go |= note.name() == b"Go";
            }
        }
    }
    Some((kind, go))
}

fn is_own_processor(machine: Machine) -> bool {
    match std::env::consts::ARCH {
        "x86_64" => machine == EM_X86_64,
        "aarch64" => machine == EM_AARCH64,
        "x86" => machine == EM_386,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use numapilot_test_kit::damaged_bytes;
    use proptest::prelude::*;

    use super::*;

    fn file_of(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    /// An ELF64 program with these segments: (type, contents).
    fn elf64(segments: &[(u32, &[u8])]) -> Vec<u8> {
        let headers = 64 + 56 * segments.len();
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(16, 0);
        let machine = if cfg!(target_arch = "x86_64") { EM_X86_64 } else { EM_AARCH64 };
        for (value, size) in [
            (2u64, 2),
            (u64::from(machine.0), 2),
            (1, 4),
            (0, 8),
            (64, 8),
            (0, 8),
            (0, 4),
            (64, 2),
            (56, 2),
            (segments.len() as u64, 2),
            (64, 2),
            (0, 2),
            (0, 2),
        ] {
            bytes.extend(&value.to_le_bytes()[..size]);
        }
        let mut offset = headers as u64;
        for (kind, contents) in segments {
            let length = contents.len() as u64;
            bytes.extend(kind.to_le_bytes());
            bytes.extend(4u32.to_le_bytes());
            for value in [offset, 0, 0, length, length, 4] {
                bytes.extend(value.to_le_bytes());
            }
            offset += length;
        }
        segments.iter().for_each(|(_, contents)| bytes.extend(*contents));
        bytes
    }

    const PT_INTERP: u32 = 3;
    const GO_NOTE: &[u8] = b"\x04\0\0\0\x04\0\0\0\x04\0\0\0Go\0\0abcd";

    #[test]
    fn this_test_is_a_dynamic_program() {
        let binary = inspect(Path::new("/proc/self/exe")).unwrap();
        assert!(matches!(binary.kind, Kind::Dynamic { native: true, .. }), "{binary:?}");
        assert!(!binary.go && !binary.secure);
    }

    #[test]
    fn loader_and_go_note_are_found() {
        let dynamic = elf64(&[(PT_INTERP, b"/lib/ld-musl-x86_64.so.1\0")]);
        let kind = inspect(file_of(&dynamic).path()).unwrap().kind;
        assert_eq!(kind, Kind::Dynamic { loader: "/lib/ld-musl-x86_64.so.1".into(), native: true });
        let go = inspect(file_of(&elf64(&[(4, GO_NOTE)])).path()).unwrap();
        assert_eq!((go.kind, go.go), (Kind::Static, true));
    }

    #[test]
    fn scripts_are_followed_to_their_interpreter() {
        let target = file_of(&elf64(&[]));
        let script = |line: &str| inspect(file_of(line.as_bytes()).path());
        let binary = script(&format!("#! {} -x\nbody", target.path().display())).unwrap();
        assert_eq!((binary.path.as_path(), binary.kind), (target.path(), Kind::Static));
        assert!(script("#!/nonexistent/interpreter\n").is_err());
        assert_eq!(script("echo no first line\n").unwrap().kind, Kind::Other);
        assert_eq!(script("#!").unwrap().kind, Kind::Other);
        assert_eq!(script("").unwrap().kind, Kind::Other);
    }

    #[test]
    fn env_names_a_program() {
        let named = |line: &str| {
            let line = interpreter(file_of(line.as_bytes()).path()).unwrap().unwrap();
            line.named_by_env().map(|name| name.to_string_lossy().into_owned())
        };
        assert_eq!(named("#!/usr/bin/env python3\n").as_deref(), Some("python3"));
        assert_eq!(named("#!/usr/bin/env -S A=1 perl -w\n").as_deref(), Some("perl"));
        assert_eq!(named("#!/usr/bin/env\n"), None);
        assert_eq!(named("#!/bin/sh -e\n"), None);
    }

    #[test]
    fn a_script_that_names_itself_ends() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let line = format!("#!{}\n", file.path().display());
        file.write_all(line.as_bytes()).unwrap();
        assert_eq!(inspect(file.path()).unwrap().kind, Kind::Other);
    }

    #[test]
    fn set_user_id_counts_only_for_another_owner() {
        let file = file_of(&elf64(&[]));
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o4755)).unwrap();
        assert!(!inspect(file.path()).unwrap().secure, "our own file gives no new rights");
        if !rustix::process::getuid().is_root() {
            println!("skipped: giving the file to another user needs root");
            return;
        }
        std::os::unix::fs::chown(file.path(), Some(12345), None).unwrap();
        // chown clears the set-user-ID bit.
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o4755)).unwrap();
        assert!(inspect(file.path()).unwrap().secure);
    }

    proptest! {
        #[test]
        fn damaged_files_are_read_or_refused(
            bytes in damaged_bytes(elf64(&[
                (PT_INTERP, b"/lib64/ld-linux-x86-64.so.2\0"),
                (4, GO_NOTE),
            ])),
        ) {
            let _ = inspect(file_of(&bytes).path());
        }
    }
}
