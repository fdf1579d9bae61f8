//! Checks whether a file is a shared library that programs like this one can load.
//!
//! Source: elf(5). A program is like this one if it has the word size, byte order and processor of
//! numapilot's own file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Identification, type and machine of an ELF file.
struct Start {
    class_and_order: [u8; 2],
    kind: u16,
    machine: u16,
}

/// `e_type` of a shared object.
const ET_DYN: u16 = 3;

/// Accepts a shared library for this processor.
///
/// # Errors
/// Those of opening it, or `InvalidData` with the actual kind of the file.
pub(super) fn check(path: &Path) -> io::Result<()> {
    let Some(library) = start(path)? else {
        return Err(invalid("not a shared library (not an ELF file)"));
    };
    if library.kind != ET_DYN {
        return Err(invalid("not a shared library (an ELF file of another kind)"));
    }
    let own = start(Path::new("/proc/self/exe"))?;
    let is_native = own.is_some_and(|own| {
        own.class_and_order == library.class_and_order && own.machine == library.machine
    });
    if is_native { Ok(()) } else { Err(invalid("built for another word size or processor")) }
}

fn start(path: &Path) -> io::Result<Option<Start>> {
    let mut file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(invalid("not a file"));
    }
    let mut bytes = [0u8; 20];
    match file.read_exact(&mut bytes) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(e) => return Err(e),
    }
    if !bytes.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    let class_and_order = [bytes[4], bytes[5]];
    // EI_DATA: 1 is little endian, 2 big.
    let number = |at: usize| match bytes[5] {
        2 => u16::from_be_bytes([bytes[at], bytes[at + 1]]),
        _ => u16::from_le_bytes([bytes[at], bytes[at + 1]]),
    };
    Ok(Some(Start { class_and_order, kind: number(16), machine: number(18) }))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_native_shared_objects_pass() {
        // A position-independent executable is a shared object to the kernel.
        check(Path::new("/proc/self/exe")).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("lib.so");
        let cause = |bytes: &[u8]| {
            fs::write(&file, bytes).unwrap();
            check(&file).unwrap_err().to_string()
        };
        assert!(cause(b"/* GNU ld script */").contains("not an ELF"));
        assert!(cause(b"\x7fELF").contains("not an ELF"));
        let mut own = fs::read("/proc/self/exe").unwrap();
        own.truncate(64);
        own[18] ^= 0x55;
        assert!(cause(&own).contains("another word size or processor"));
        own[16] = 1;
        assert!(cause(&own).contains("another kind"));
        assert!(check(directory.path()).unwrap_err().to_string().contains("not a file"));
        assert!(check(&directory.path().join("none")).is_err());
    }
}
