//! Splits streams into frames: a length of four bytes (little endian), then that many bytes. A
//! length of 0 ends the stream, which a virtio port cannot signal by itself.

use std::io::{self, Read, Write};

/// The maximum length of a frame; longer data is split.
pub const LONGEST: usize = 64 << 10;

/// Writes bytes as frames. Writing no bytes ends the stream.
///
/// # Errors
/// The errors of the port.
pub fn write(port: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return port.write_all(&[0; 4]);
    }
    for part in bytes.chunks(LONGEST) {
        let length = u32::try_from(part.len()).map_err(io::Error::other)?;
        port.write_all(&length.to_le_bytes())?;
        port.write_all(part)?;
    }
    port.flush()
}

/// Reads one frame into `buffer`, and returns whether the stream continues.
///
/// # Errors
/// The errors of the port, [`io::ErrorKind::UnexpectedEof`] when a frame is incomplete, and
/// [`io::ErrorKind::InvalidData`] for a length that [`write()`] does not produce.
pub fn read(port: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<bool> {
    let mut length = [0; 4];
    port.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the frame is too long"));
    }
    buffer.resize(length, 0);
    port.read_exact(buffer)?;
    Ok(length > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn long_writes_are_cut_and_the_end_is_seen() {
        let bytes: Vec<u8> = (0..LONGEST + 5).map(|i| i.to_le_bytes()[0]).collect();
        let mut port = Vec::new();
        write(&mut port, &bytes).unwrap();
        write(&mut port, &[]).unwrap();
        let (mut port, mut buffer, mut all) = (port.as_slice(), Vec::new(), Vec::<u8>::new());
        while read(&mut port, &mut buffer).unwrap() {
            all.extend(&buffer);
        }
        assert_eq!(all, bytes);
        assert_eq!(
            read(&mut port, &mut buffer).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof,
            "after the end there is nothing"
        );
    }

    #[test]
    fn an_absurd_length_is_refused() {
        let kind = read(&mut &[255u8; 8][..], &mut Vec::new()).unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::InvalidData);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(parts in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 1..200), 0..20)) {
            let mut port = Vec::new();
            for part in &parts {
                write(&mut port, part).unwrap();
            }
            write(&mut port, &[]).unwrap();
            let (mut port, mut buffer, mut all) = (port.as_slice(), Vec::new(), Vec::new());
            while read(&mut port, &mut buffer).unwrap() {
                all.push(buffer.clone());
            }
            prop_assert_eq!(all, parts);
        }
    }
}
