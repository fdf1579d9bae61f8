//! Records decisions, and replays them.
//!
//! A trace holds the evidence of every interval of every process, the orders that followed, and
//! their results. That is enough to decide again without the program or the machine.
//!
//! ```text
//!  "NPBTRACE"  version (1 byte)  length (4)  header: JSON of nodes and setup
//!  length (4)  interval          ... again and again
//!  0      (4)  the end: a trace without it was interrupted
//! ```
//!
//! Lengths are little endian. An interval is a row of numbers: unsigned ones as LEB128, signed ones
//! in zigzag form before that, floating-point numbers as their 8 bytes, `Option`s behind a 0 or 1,
//! and pages as the difference to the page before. Their order is that of [`Recorded`]'s fields in
//! `codec`.

mod codec;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::balance::{Balance, Setup};
use crate::decision::{Decision, Moved, Order};
use crate::evidence::Evidence;
use crate::nodes::Nodes;

const MAGIC: &[u8; 8] = b"NPBTRACE";
const VERSION: u8 = 2;
/// Longest part that is accepted: far above the size of any interval.
const LONGEST: u32 = 1 << 30;

/// The data that all intervals of a trace share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The machine.
    pub nodes: Nodes,
    /// The setup that decided.
    pub setup: Setup,
}

/// One interval of one process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// The process.
    pub pid: i32,
    /// When the interval ended.
    pub now_ns: u64,
    /// The evidence.
    pub evidence: Evidence,
    /// The orders.
    pub orders: Vec<Order>,
    /// The pages that were moved, and how long that took; `None` in a dry run.
    pub done: Option<(Vec<Moved>, u64)>,
}

/// Why a trace cannot be read.
#[derive(Debug, Error)]
pub enum TraceError {
    /// Reading failed.
    #[error("the trace cannot be read: {0}")]
    Io(io::Error),
    /// The file is not a trace.
    #[error("this is not a trace: record one with numapilot balance --record FILE")]
    NoTrace,
    /// The trace has another version.
    #[error("the trace has version {0} and this numapilot reads {VERSION}: record it again")]
    Version(u8),
    /// The trace ends too early.
    #[error(
        "the trace ends early, after {intervals} whole intervals: its recording was \
         interrupted, or the file was cut"
    )]
    Truncated {
        /// Whole intervals before its end.
        intervals: usize,
    },
    /// The trace is damaged.
    #[error("the trace is damaged in interval {interval}: record it again")]
    Damaged {
        /// The interval, counted from 1; 0 is the header.
        interval: usize,
    },
    /// The decision differs from the recording.
    #[error(
        "interval {interval} of process {pid}: the orders are not those of the recording \
         ({now} instead of {then}); another version recorded it, or the decision is not a function \
         of its evidence"
    )]
    Differs {
        /// The interval, counted from 1 over all processes.
        interval: usize,
        /// The process.
        pid: i32,
        /// Number of orders now.
        now: usize,
        /// Number of orders in the recording.
        then: usize,
    },
}

/// Writes a trace.
#[derive(Debug)]
pub struct Writer<W> {
    file: W,
}

impl<W: Write> Writer<W> {
    /// Begins a trace with its header.
    ///
    /// # Errors
    /// The errors of the file.
    pub fn begin(mut file: W, header: &Header) -> io::Result<Self> {
        file.write_all(MAGIC)?;
        file.write_all(&[VERSION])?;
        part(&mut file, &serde_json::to_vec(header)?)?;
        Ok(Self { file })
    }

    /// Adds an interval.
    ///
    /// # Errors
    /// The errors of the file.
    pub fn add(&mut self, recorded: &Recorded) -> io::Result<()> {
        part(&mut self.file, &codec::encode(recorded))?;
        // An interrupted recording keeps its intervals.
        self.file.flush()
    }

    /// Writes the end of the trace.
    ///
    /// # Errors
    /// The errors of the file.
    pub fn end(mut self) -> io::Result<()> {
        part(&mut self.file, &[])?;
        self.file.flush()
    }
}

fn part(file: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    file.write_all(&length.to_le_bytes())?;
    file.write_all(bytes)
}

/// Reads a trace.
#[derive(Debug)]
pub struct Reader<R> {
    file: R,
    header: Header,
    intervals: usize,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn begin(mut file: R) -> Result<Self, TraceError> {
        let mut start = [0u8; MAGIC.len() + 1];
        file.read_exact(&mut start).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => TraceError::NoTrace,
            _ => TraceError::Io(error),
        })?;
        let [magic @ .., version] = start;
        if &magic != MAGIC {
            return Err(TraceError::NoTrace);
        }
        if version != VERSION {
            return Err(TraceError::Version(version));
        }
        let bytes = read_part(&mut file, 0)?;
        let header: Header = serde_json::from_slice(&bytes)
            .ok()
            .filter(|header: &Header| header.nodes.is_sound())
            .ok_or(TraceError::Damaged { interval: 0 })?;
        Ok(Self { file, header, intervals: 0 })
    }

    /// The header that all intervals share.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The next interval; `None` at the end.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn read(&mut self) -> Result<Option<Recorded>, TraceError> {
        let bytes = read_part(&mut self.file, self.intervals)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        self.intervals += 1;
        let recorded = codec::decode(&bytes, self.header.nodes.len());
        recorded.map(Some).ok_or(TraceError::Damaged { interval: self.intervals })
    }
}

fn read_part(file: &mut impl Read, intervals: usize) -> Result<Vec<u8>, TraceError> {
    let truncated = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => TraceError::Truncated { intervals },
        _ => TraceError::Io(error),
    };
    let mut length = [0u8; 4];
    file.read_exact(&mut length).map_err(truncated)?;
    let length = u32::from_le_bytes(length);
    if length > LONGEST {
        return Err(TraceError::Damaged { interval: intervals + 1 });
    }
    // Reads only as much as there is: a damaged length must not allocate all memory.
    let mut bytes = Vec::new();
    file.take(length.into()).read_to_end(&mut bytes).map_err(TraceError::Io)?;
    if bytes.len() < length as usize {
        return Err(TraceError::Truncated { intervals });
    }
    Ok(bytes)
}

/// Replays the decisions of a trace and compares them.
#[derive(Debug)]
pub struct Replay<R> {
    reader: Reader<R>,
    states: BTreeMap<i32, Balance>,
}

impl<R: Read> Replay<R> {
    /// Begins a replay.
    #[must_use]
    pub const fn new(reader: Reader<R>) -> Self {
        Self { reader, states: BTreeMap::new() }
    }

    /// The next interval as it was recorded and as it is decided now; `None` at the end.
    ///
    /// # Errors
    /// [`TraceError`]; [`TraceError::Differs`] if the orders are not the same.
    pub fn step(&mut self) -> Result<Option<(Recorded, Decision)>, TraceError> {
        let Some(recorded) = self.reader.read()? else { return Ok(None) };
        let Header { nodes, setup } = &self.reader.header;
        let state = self.states.entry(recorded.pid).or_insert_with(|| setup.begin(nodes));
        let decision = state.decide(nodes, &recorded.evidence, recorded.now_ns);
        if decision.orders != recorded.orders {
            return Err(TraceError::Differs {
                interval: self.reader.intervals,
                pid: recorded.pid,
                now: decision.orders.len(),
                then: recorded.orders.len(),
            });
        }
        if let Some((moved, took_ns)) = &recorded.done {
            state.done(moved, *took_ns, recorded.now_ns);
        }
        Ok(Some((recorded, decision)))
    }
}

#[cfg(test)]
mod tests;
