//! Writes records as raw bytes for other programs to read: the key and the value of each record,
//! eight bytes each, little endian.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::{Record, Source};
use crate::WorkloadError;

/// Records generated at a time.
const PART: u64 = 1 << 16;

/// Writes tables to a file, one after the other; returns the number of bytes.
///
/// # Errors
/// [`WorkloadError::Dump`] when the file cannot be created or written. A full disk is reported
/// here, not later.
pub fn dump(tables: &[&dyn Source], path: &Path) -> Result<u64, WorkloadError> {
    write(tables, path).map_err(|source| WorkloadError::Dump { path: path.to_owned(), source })
}

fn write(tables: &[&dyn Source], path: &Path) -> io::Result<u64> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut part = Vec::new();
    for table in tables {
        let mut start = 0;
        while start < table.records() {
            let end = table.records().min(start + PART);
            part.clear();
            table.generate(start..end, &mut part);
            for Record { key, value } in &part {
                out.write_all(&key.to_le_bytes())?;
                out.write_all(&value.to_le_bytes())?;
            }
            start = end;
        }
    }
    let file = out.into_inner()?;
    // Only a regular file needs to be synchronised.
    if file.metadata()?.is_file() {
        file.sync_all()?;
    }
    let records: u64 = tables.iter().map(|table| table.records()).sum();
    Ok(records * size_of::<Record>() as u64)
}
