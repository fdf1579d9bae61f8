//! Leaves out the part of a program's file that no loader reads. Debugging information is the
//! largest part of some programs, and the guest's files take memory of its first node.
//!
//! Source: elf(5). The loader reads segments only. The section table, and sections outside of
//! segments, follow the segments in the file.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek};
use std::os::unix::fs::FileExt;

const MAGIC: [u8; 6] = *b"\x7fELF\x02\x01";
/// Bytes of the header of a 64-bit file.
const HEADER: usize = 64;
/// Offsets in the header: the positions of the segment table and the section table, and the size of
/// a segment table entry, which the number of entries follows.
const SEGMENTS: usize = 32;
const SECTIONS: usize = 40;
const SEGMENT_BYTES: usize = 54;
/// Bytes of an entry of the segment table.
const SEGMENT: usize = 56;
/// The minimum number of bytes to save; for less, a program keeps its sections.
const LEAST: u64 = 1 << 20;

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes)
}

fn half(bytes: &[u8], at: usize) -> usize {
    bytes[at..at + 2].try_into().map_or(0, u16::from_le_bytes).into()
}

/// The number of bytes of a file to copy: up to the end of its segments, if it is a 64-bit ELF file
/// with at least [`LEAST`] bytes after that, and all bytes otherwise.
///
/// # Errors
/// The error of reading the file.
pub fn length(file: &File, bytes: u64) -> io::Result<u64> {
    if bytes < LEAST {
        return Ok(bytes);
    }
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0)?;
    let (table, count) = (word(&header, SEGMENTS), half(&header, SEGMENT_BYTES + 2));
    if header[..6] != MAGIC || half(&header, SEGMENT_BYTES) != SEGMENT {
        return Ok(bytes);
    }
    let mut segments = vec![0; count * SEGMENT];
    file.read_exact_at(&mut segments, table)?;
    let ends = segments.chunks(SEGMENT).map(|s| word(s, 8).saturating_add(word(s, 32)));
    let end = ends.max().unwrap_or(bytes).max(table + segments.len() as u64);
    Ok(if end + LEAST <= bytes { end } else { bytes })
}

/// A reader of the first `length` bytes. If they are not the whole file, the reader's ELF header
/// names no sections.
///
/// # Errors
/// The error of reading the file.
pub fn reader(mut file: File, length: u64) -> io::Result<Box<dyn Read>> {
    file.rewind()?;
    if length == file.metadata()?.len() {
        return Ok(Box::new(file.take(length)));
    }
    let mut header = [0; HEADER];
    file.read_exact(&mut header)?;
    header[SECTIONS..SECTIONS + 8].fill(0);
    // The number of sections, and the index of the section with their names.
    header[HEADER - 4..].fill(0);
    Ok(Box::new(Cursor::new(header).chain(file.take(length - HEADER as u64))))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use numapilot_test_kit::make_executable;

    use super::*;

    #[test]
    fn a_trimmed_program_runs() {
        let own = std::env::current_exe().unwrap();
        let file = File::open(&own).unwrap();
        let all = file.metadata().unwrap().len();
        let length = length(&file, all).unwrap();
        assert!(length < all, "a test has debugging information: {length} of {all}");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trimmed");
        assert_eq!(make_executable(&path, &mut reader(file, length).unwrap()), length);
        let output = Command::new(&path).arg("--list").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("a_trimmed_program_runs"));
    }

    #[test]
    fn other_files_are_whole() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"\x7fELF\x02\x01", 0).unwrap();
        file.set_len(3 << 20).unwrap();
        assert_eq!(length(&file, 3 << 20).unwrap(), 3 << 20);
        assert_eq!(length(&file, 100).unwrap(), 100);
    }
}
