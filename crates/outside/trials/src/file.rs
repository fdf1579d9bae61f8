//! Writes and reads a file.
//!
//! Source: the Parquet format (github.com/apache/parquet-format); the crate `parquet` of arrow-rs. A
//! file is read as a whole and within a limit, because others may have written it. It is not compressed: texts
//! that repeat are written once.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use numapilot_topology::bounded;
use numapilot_topology::remedy;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::record::{Field, Row as Record};
use parquet::schema::parser::parse_message_type;
use thiserror::Error;

use crate::columns::{COLUMNS, Column, Values, message};
use crate::row::Row;

/// Most bytes of a file.
const MOST: u64 = 256 << 20;
/// Most rows of a file: a few damaged bytes can promise any number.
const MOST_ROWS: i64 = 4 << 20;

/// Why a file cannot be read.
#[derive(Debug, Error)]
pub enum FileError {
    /// The file system refuses.
    #[error("cannot read {}; {}", path.display(), remedy::reading(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no Parquet file, or damaged, or compressed.
    #[error(
        "{} is no Parquet file, or is damaged or compressed; write it again by numapilot tune --resume \
         --parquet, or without compression", path.display()
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ParquetError,
    },
    /// It does not hold runs.
    #[error(
        "{} is a Parquet file but not one of numapilot's runs: {what}; give files that --parquet \
         wrote", path.display()
    )]
    Schema {
        /// The file.
        path: PathBuf,
        /// What is missing or wrong.
        what: String,
    },
}

/// The bytes of a file with these rows.
///
/// # Errors
/// [`ParquetError`], which rows do not cause.
pub fn parquet(rows: &[Row]) -> Result<Vec<u8>, ParquetError> {
    let schema = Arc::new(parse_message_type(&message())?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_created_by(format!("numapilot version {}", env!("CARGO_PKG_VERSION")))
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for column in &COLUMNS {
        let Some(mut to) = group.next_column()? else { break };
        match column.values {
            Values::Text(get, _) => {
                let bytes = |row: &Row| get(row).map(ByteArray::from);
                put::<ByteArrayType>(&mut to, column, rows, bytes)?;
            }
            Values::Integer(get, _) | Values::Time(get, _) => {
                put::<Int64Type>(&mut to, column, rows, get)?;
            }
            Values::Number(get, _) => put::<DoubleType>(&mut to, column, rows, get)?,
        }
        to.close()?;
    }
    group.close()?;
    writer.into_inner()
}

fn put<T: DataType>(
    to: &mut SerializedColumnWriter<'_>,
    column: &Column,
    rows: &[Row],
    get: impl Fn(&Row) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let values: Vec<Option<T::T>> = rows.iter().map(get).collect();
    // A level says whether the value is there.
    let levels: Option<Vec<i16>> =
        column.is_optional.then(|| values.iter().map(|value| i16::from(value.is_some())).collect());
    let values: Vec<T::T> = values.into_iter().flatten().collect();
    to.typed::<T>().write_batch(&values, levels.as_deref(), None).map(drop)
}

/// The rows of a file.
///
/// # Errors
/// [`FileError`].
///
/// # Panics
/// Where the crate does, at damage within a page of values, which only decoding shows.
pub fn read(path: &Path) -> Result<Vec<Row>, FileError> {
    let bytes = bounded::read_bytes(path, MOST)
        .map_err(|source| FileError::Io { path: path.to_owned(), source })?;
    rows(bytes).map_err(|wrong| match wrong {
        Wrong::Format(source) => FileError::Format { path: path.to_owned(), source },
        Wrong::Schema(what) => FileError::Schema { path: path.to_owned(), what },
    })
}

/// What is wrong with the bytes of a file.
#[derive(Debug)]
enum Wrong {
    Format(ParquetError),
    Schema(String),
}

impl From<ParquetError> for Wrong {
    fn from(error: ParquetError) -> Self {
        Self::Format(error)
    }
}

fn rows(bytes: Vec<u8>) -> Result<Vec<Row>, Wrong> {
    let length = bytes.len();
    let reader = SerializedFileReader::new(Bytes::from(bytes))?;
    let schema = reader.metadata().file_metadata().schema();
    let there: BTreeSet<&str> = schema.get_fields().iter().map(|field| field.name()).collect();
    if let Some(column) = COLUMNS.iter().find(|column| !there.contains(column.name)) {
        return Err(Wrong::Schema(format!("it has no column '{}'", column.name)));
    }
    let damaged = |what: &str| Err(ParquetError::General(what.to_owned()).into());
    for group in reader.metadata().row_groups() {
        // Otherwise rows without values would be made up.
        if group.columns().iter().any(|column| column.num_values() != group.num_rows()) {
            return damaged("columns differ in length");
        }
        if group.columns().iter().any(|column| !is_within(column, length)) {
            return damaged("a column is not within the file");
        }
    }
    let promised: i64 = reader.metadata().row_groups().iter().map(|group| group.num_rows()).sum();
    if !(0..=MOST_ROWS).contains(&promised) {
        return Err(Wrong::Schema(format!("it promises {promised} rows, more than {MOST_ROWS}")));
    }
    reader.get_row_iter(None)?.map(|record| row(&record?)).collect()
}

/// Whether the pages of a column are in a file of this length, which the crate takes for granted.
fn is_within(column: &ColumnChunkMetaData, length: usize) -> bool {
    let begin = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
    let end = begin.checked_add(column.compressed_size());
    let is_inside = |at: i64| usize::try_from(at).is_ok_and(|at| at <= length);
    is_inside(begin) && is_inside(column.compressed_size()) && end.is_some_and(is_inside)
}

fn row(record: &Record) -> Result<Row, Wrong> {
    let mut row = Row::default();
    for (name, field) in record.get_column_iter() {
        // Other columns may have been added.
        let Some(column) = COLUMNS.iter().find(|column| column.name == name) else { continue };
        let wrong = |what: String| Wrong::Schema(format!("column '{name}': {what}"));
        match (&column.values, field) {
            (_, Field::Null) if column.is_optional => {}
            (Values::Text(_, set), Field::Str(text)) => {
                set(&mut row, text.clone()).map_err(wrong)?;
            }
            (Values::Integer(_, set), Field::Long(value))
            | (Values::Time(_, set), Field::Long(value) | Field::TimestampMillis(value)) => {
                set(&mut row, *value);
            }
            (Values::Integer(_, set), Field::Int(value)) => set(&mut row, (*value).into()),
            (Values::Time(_, set), Field::TimestampMicros(value)) => set(&mut row, value / 1000),
            (Values::Number(_, set), Field::Double(value)) => set(&mut row, *value),
            (_, Field::Null) => return Err(wrong("a value is missing".to_owned())),
            (_, other) => return Err(wrong(format!("{other} has another type"))),
        }
    }
    Ok(row)
}

#[cfg(test)]
mod tests;
