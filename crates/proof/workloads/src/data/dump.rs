//! Records as raw bytes, for other programs to read: per record the key and the value,
//! eight bytes each, little endian.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::{DataSet, Record};
use crate::WorkloadError;

/// Writes a data set to a file; returns the number of bytes.
///
/// # Errors
/// [`WorkloadError::Dump`] when the file cannot be created or written; a full disk shows
/// here, not later.
pub fn dump(set: &DataSet, path: &Path) -> Result<u64, WorkloadError> {
    write(set, path).map_err(|source| WorkloadError::Dump { path: path.to_owned(), source })
}

fn write(set: &DataSet, path: &Path) -> io::Result<u64> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let generator = set.generator();
    for index in 0..set.records {
        let Record { key, value } = generator.record(index);
        out.write_all(&key.to_le_bytes())?;
        out.write_all(&value.to_le_bytes())?;
    }
    let file = out.into_inner()?;
    // Only on a disk is there anything to wait for.
    if file.metadata()?.is_file() {
        file.sync_all()?;
    }
    Ok(set.records * size_of::<Record>() as u64)
}
