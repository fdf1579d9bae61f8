//! Reads files that a user names, up to a limit. A device such as `/dev/zero` has no end, and a
//! wrong file may be larger than memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads a file of at most `most` bytes.
///
/// # Errors
/// Errors of the file system, and `FileTooLarge` with the limit for a longer file.
pub fn read_bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_bytes_of(File::open(path)?, most)
}

/// As [`read_bytes`], from an open file.
///
/// # Errors
/// As [`read_bytes`].
pub fn read_bytes_of(file: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let text = format!("more than {most} bytes, the limit for such a file");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

/// Reads a text of at most `most` bytes.
///
/// # Errors
/// As [`read_bytes`], and `InvalidData` when the file is not UTF-8.
pub fn read(path: &Path, most: u64) -> io::Result<String> {
    let bytes = read_bytes(path, most)?;
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text (not valid UTF-8)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_refused_with_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), "12345");
        for (path, most) in [(path.as_path(), 4), ("/dev/zero".as_ref(), 1 << 20)] {
            let error = read(path, most).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
            assert!(error.to_string().starts_with(&format!("more than {most} bytes")), "{error}");
        }
        std::fs::write(&path, b"\xff").unwrap();
        assert_eq!(read(&path, 5).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
