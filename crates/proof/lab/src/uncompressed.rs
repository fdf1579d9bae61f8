//! Decompresses the guest's kernel once on the host, because decompression in the emulator takes
//! more than a second.
//!
//! Source: Linux, Documentation/arch/x86/boot.rst (the position of the compressed kernel in its
//! file) and arch/x86/platform/pvh (the start of an uncompressed kernel, which QEMU supports for
//! kernels that have a note with the entry).

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian, elf};
use ruzstd::decoding::StreamingDecoder;

use crate::LabError;
use crate::directories::scratch_directory;

/// The first version of the boot protocol that contains the payload's position.
const OLDEST_PROTOCOL: u16 = 0x0208;
/// Size of a sector.
const SECTOR: usize = 512;
/// The start of a zstd frame (RFC 8878); kernels with another compression decompress themselves.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The note with the entry (Linux, include/xen/interface/elfnote.h).
const ENTRY_NOTE: (&[u8], elf::NoteType) = (b"Xen", elf::NoteType(18));

/// The file to boot for a compressed kernel: the uncompressed file beside it, which is made if it
/// is missing, or the compressed one if that is impossible.
///
/// # Errors
/// [`LabError::System`] when the compressed file cannot be read or the other one cannot be written.
pub fn uncompressed_kernel(compressed: &Path, version: &str) -> Result<PathBuf, LabError> {
    let path = compressed.with_file_name(format!("vmlinux-{version}"));
    if path.is_file() {
        return Ok(path);
    }
    let image = fs::read(compressed).map_err(LabError::at("read", compressed))?;
    let Some(kernel) = unpacked(&image) else { return Ok(compressed.to_owned()) };
    // The file appears at once with its full contents.
    let scratch = scratch_directory()?;
    let whole = scratch.path().join("vmlinux");
    fs::write(&whole, kernel).map_err(LabError::at("write", &whole))?;
    fs::rename(&whole, &path).map_err(LabError::at("put in place", &path))?;
    Ok(path)
}

/// The kernel in an image, if QEMU can start it.
fn unpacked(image: &[u8]) -> Option<Vec<u8>> {
    let payload = payload(image)?;
    // The frame is followed by its length, which the decoder ignores.
    let mut kernel = Vec::new();
    StreamingDecoder::new(payload).ok()?.read_to_end(&mut kernel).ok()?;
    has_entry(&kernel).then_some(kernel)
}

/// The compressed kernel, if zstd was used.
fn payload(image: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| Some(u32::from_le_bytes(*image.get(at..)?.first_chunk()?) as usize);
    let version = u16::from_le_bytes(*image.get(0x206..)?.first_chunk()?);
    if version < OLDEST_PROTOCOL {
        return None;
    }
    // The setup sectors and the boot sector before them; 0 means 4.
    let sectors = match *image.get(0x1f1)? {
        0 => 4,
        count => usize::from(count),
    };
    let start = ((sectors + 1) * SECTOR).checked_add(word(0x248)?)?;
    let payload = image.get(start..start.checked_add(word(0x24c)?)?)?;
    payload.starts_with(&ZSTD).then_some(payload)
}

fn has_entry(kernel: &[u8]) -> bool {
    let find = || {
        let header = FileHeader64::<LittleEndian>::parse(kernel).ok()?;
        let endian = header.endian().ok()?;
        for segment in header.program_headers(endian, kernel).ok()? {
            let Ok(Some(mut notes)) = segment.notes(endian, kernel) else { continue };
            while let Ok(Some(note)) = notes.next() {
                if (note.name(), note.n_type(endian)) == ENTRY_NOTE {
                    return Some(());
                }
            }
        }
        None
    };
    kernel.starts_with(&elf::ELFMAG) && find().is_some()
}

#[cfg(test)]
mod tests {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    /// An executable whose only segment is one note of Xen's, of this type.
    fn kernel(note: u8) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        let mut put = |at: usize, value: u8| bytes[at] = value;
        // Type and processor; position, length and number of segments.
        for (at, value) in [(16, 2), (18, 62), (20, 1), (32, 64), (52, 64), (54, 56), (56, 1)] {
            put(at, value);
        }
        // The segment: a note at 120, of 20 bytes.
        for (at, value) in [(64, 4), (72, 120), (96, 20), (104, 20), (112, 4)] {
            put(at, value);
        }
        bytes.extend([4, 0, 0, 0, 4, 0, 0, 0, note, 0, 0, 0]);
        bytes.extend(b"Xen\0\0\0\0\x01");
        bytes
    }

    /// A file with a compressed kernel, with one setup sector.
    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 2 * SECTOR + 12];
        image[0x1f1] = 1;
        image[0x206..0x208].copy_from_slice(&0x020f_u16.to_le_bytes());
        image[0x248] = 12;
        let length = u32::try_from(payload.len()).unwrap();
        image[0x24c..0x250].copy_from_slice(&length.to_le_bytes());
        image.extend(payload);
        // The decompressor follows the payload.
        image.extend([0xaa; 99]);
        image
    }

    /// The format of the kernel's build: the frame followed by its length.
    fn compressed(kernel: &[u8]) -> Vec<u8> {
        let mut payload = compress_to_vec(kernel, CompressionLevel::Fastest);
        payload.extend(u32::try_from(kernel.len()).unwrap().to_le_bytes());
        payload
    }

    #[test]
    fn a_kernel_is_taken_out_of_its_image() {
        let whole = image(&compressed(&kernel(18)));
        assert_eq!(unpacked(&whole), Some(kernel(18)));
        for length in [0, 0x206, 0x250, whole.len() - 120] {
            assert_eq!(unpacked(&whole[..length]), None, "{length}");
        }
    }

    #[test]
    fn one_that_cannot_be_started_stays_in_it() {
        assert_eq!(unpacked(&image(&compressed(&kernel(17)))), None);
        assert_eq!(unpacked(&image(&compressed(b"MZ"))), None);
        assert_eq!(unpacked(&image(&kernel(18))), None);
        let mut old = image(&compressed(&kernel(18)));
        old[0x206] = 0x07;
        assert_eq!(unpacked(&old), None);
    }

    #[test]
    fn it_stays_beside_the_compressed_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vmlinuz-1");
        fs::write(&path, image(b"\x1f\x8bgzip")).unwrap();
        assert_eq!(uncompressed_kernel(&path, "1").unwrap(), path);
        let made = directory.path().join("vmlinux-1");
        fs::write(&made, "made before").unwrap();
        assert_eq!(uncompressed_kernel(&path, "1").unwrap(), made);
        assert_eq!(fs::read(&made).unwrap(), b"made before");
    }
}
