//! Writes a directory as an initramfs: the cpio archive that the guest's kernel unpacks at boot.
//!
//! All files are in memory when the kernel starts, so the guest needs no storage device, whose
//! timing would depend on the host. Source: Linux,
//! Documentation/driver-api/early-userspace/buffer-format.rst, format "newc".

use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::trimmed;
use crate::LabError;

/// Name of the entry that ends the archive.
const TRAILER: &str = "TRAILER!!!";
/// Magic number at the start of each entry.
const MAGIC: &str = "070701";

/// Writes the contents of a directory, sorted by name, so that equal contents make equal archives.
///
/// # Errors
/// [`LabError`] if a file cannot be read or is too large for the format (4 GiB), or if the archive
/// cannot be written.
pub fn write(directory: &Path, to: File) -> Result<(), LabError> {
    let mut archive = Archive { to: BufWriter::new(to), inode: 0 };
    archive.directory(directory, Path::new(""))?;
    archive.header(TRAILER.as_bytes(), None, 0).map_err(failed)?;
    archive.to.flush().map_err(failed)
}

fn failed(error: io::Error) -> LabError {
    LabError::host("write the guest's files")(error)
}

struct Archive {
    to: BufWriter<File>,
    /// Number of the latest entry, used as its inode number.
    inode: u32,
}

impl Archive {
    /// Adds the entries of a directory; `name` is its path in the guest without the leading slash.
    fn directory(&mut self, place: &Path, name: &Path) -> Result<(), LabError> {
        let read = |error| LabError::at("read", place)(error);
        let entries = fs::read_dir(place).map_err(read)?;
        let mut names = entries
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<io::Result<Vec<_>>>()
            .map_err(read)?;
        names.sort();
        for entry in names {
            self.entry(&place.join(&entry), &name.join(&entry))?;
        }
        Ok(())
    }

    fn entry(&mut self, place: &Path, name: &Path) -> Result<(), LabError> {
        let read = |error: io::Error| LabError::at("read", place)(error);
        let about = fs::symlink_metadata(place).map_err(read)?;
        let bytes = name.as_os_str().as_bytes();
        if about.is_dir() {
            self.header(bytes, Some(&about), 0).map_err(failed)?;
            return self.directory(place, name);
        }
        if about.is_symlink() {
            let target = fs::read_link(place).map_err(read)?;
            let target = target.as_os_str().as_bytes();
            self.header(bytes, Some(&about), target.len() as u32).map_err(failed)?;
            return self.contents(target).map_err(failed);
        }
        let file = File::open(place).map_err(read)?;
        let length = trimmed::length(&file, about.len()).map_err(read)?;
        let size = u32::try_from(length)
            .map_err(|_| LabError::TooLarge { path: PathBuf::from("/").join(name) })?;
        self.header(bytes, Some(&about), size).map_err(failed)?;
        let mut source = trimmed::reader(file, length).map_err(read)?;
        let copied = io::copy(&mut source, &mut self.to).map_err(failed)?;
        if copied != length {
            return Err(read(io::ErrorKind::UnexpectedEof.into()));
        }
        self.pad(length as usize).map_err(failed)
    }

    /// The header of an entry, with its name.
    fn header(&mut self, name: &[u8], about: Option<&Metadata>, size: u32) -> io::Result<()> {
        self.inode += 1;
        let [mode, user, group] = about.map_or([0; 3], |a| [a.mode(), a.uid(), a.gid()]);
        let length = name.len() as u32 + 1;
        // Inode, mode, user, group, links, time, size, device of the file (two fields), device that
        // a device file stands for (two fields), length of the name, checksum.
        let fields = [self.inode, mode, user, group, 1, 0, size, 0, 0, 0, 0, length, 0];
        let mut header = MAGIC.to_owned();
        fields.iter().for_each(|field| header += &format!("{field:08x}"));
        self.to.write_all(header.as_bytes())?;
        self.to.write_all(name)?;
        self.to.write_all(&[0])?;
        self.pad(header.len() + name.len() + 1)
    }

    fn contents(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)?;
        self.pad(bytes.len())
    }

    /// Pads data of this length with zeros to a multiple of four bytes.
    fn pad(&mut self, length: usize) -> io::Result<()> {
        io::copy(
            &mut io::repeat(0).take((length.next_multiple_of(4) - length) as u64),
            &mut self.to,
        )
        .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn an_archive_has_every_entry_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("b")).unwrap();
        fs::write(at("b/file"), "hello").unwrap();
        fs::set_permissions(at("b/file"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("b/file", at("a")).unwrap();
        let mut archive = tempfile::tempfile().unwrap();
        write(directory.path(), archive.try_clone().unwrap()).unwrap();
        let mut bytes = Vec::new();
        io::Seek::rewind(&mut archive).unwrap();
        archive.read_to_end(&mut bytes).unwrap();
        let mut rest = &bytes[..];
        let mut found = Vec::new();
        loop {
            assert_eq!(&rest[..6], MAGIC.as_bytes());
            let field = |index: usize| {
                let text = std::str::from_utf8(&rest[6 + 8 * index..][..8]).unwrap();
                u32::from_str_radix(text, 16).unwrap() as usize
            };
            let (mode, size, length) = (field(1), field(6), field(11));
            let name = String::from_utf8(rest[110..110 + length - 1].to_vec()).unwrap();
            let start = (110 + length).next_multiple_of(4);
            let contents = String::from_utf8(rest[start..start + size].to_vec()).unwrap();
            rest = &rest[(start + size).next_multiple_of(4)..];
            if name == TRAILER {
                break;
            }
            found.push((name, mode & 0o170_777 & !0o022, contents));
        }
        assert!(rest.is_empty());
        let entry = |name: &str, mode, contents: &str| (name.to_owned(), mode, contents.to_owned());
        assert_eq!(
            found,
            [
                entry("a", 0o120_755, "b/file"),
                entry("b", 0o040_755, ""),
                entry("b/file", 0o100_640, "hello"),
            ]
        );
    }
}
