//! Packets of Arm's Statistical Profiling Extension.
//!
//! Source: Arm Architecture Reference Manual for A-profile (DDI 0487), D17 "Statistical
//! Profiling Extension Sample Record Specification"; meaning of the data source packet on
//! Neoverse: Arm Neoverse N2 Core Technical Reference Manual (102099), "Statistical Profiling
//! Extension". A record of an operation is a row of packets that an end or a timestamp packet
//! closes:
//!
//! ```text
//!  header:  0b.. ss ....  payload of 1, 2, 4 or 8 bytes by ss; below 0x40: padding, end,
//!           or a prefix with more bits of the index
//! ```

use crate::sample::ServedBy;

/// One sampled load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Data address in the process.
    pub address: u64,
    /// A store.
    pub write: bool,
    /// Where it was served from, where that is told.
    pub served_by: Option<ServedBy>,
    /// From issue to completion, in cycles.
    pub latency_cycles: Option<u32>,
}

const PADDING: u8 = 0x00;
const END: u8 = 0x01;
const TIMESTAMP: u8 = 0x71;

/// Indices of address and counter packets.
const DATA_ADDRESS: u8 = 2;
const TOTAL_LATENCY: u8 = 0;

/// The operation class of loads, stores and atomics.
const LOAD_STORE: u8 = 1;

/// Bits of the events packet: the last level was looked into, and missed.
const LAST_LEVEL_ACCESS: u64 = 1 << 8;
const LAST_LEVEL_MISS: u64 = 1 << 9;

/// A packet's kind and index, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packet {
    Events,
    Source,
    Operation(u8),
    Address(u8),
    Counter(u8),
    Other,
}

impl Packet {
    /// Of a header; `high` are the bits of the index that a prefix gives.
    const fn of(header: u8, high: u8) -> Self {
        match header & 0xcf {
            0x42 => Self::Events,
            0x43 => Self::Source,
            0x48..=0x4b => Self::Operation(header & 0x3),
            _ => match header & 0xf8 {
                0xb0 => Self::Address(high << 3 | header & 0x7),
                0x98 => Self::Counter(high << 3 | header & 0x7),
                _ => Self::Other,
            },
        }
    }
}

/// The loads and stores in a piece of an AUX area. What is cut off at either end is left out.
pub fn operations(bytes: &[u8]) -> Vec<Operation> {
    let mut found = Vec::new();
    let mut record = Record::default();
    let mut rest = bytes;
    while let [header, after @ ..] = rest {
        match *header {
            PADDING => {
                rest = after;
                continue;
            }
            END => {
                found.extend(std::mem::take(&mut record).operation());
                rest = after;
                continue;
            }
            _ => {}
        }
        let (header, high, after) = match (*header, after) {
            (prefix @ 0x20..=0x23, [header, after @ ..]) => (*header, prefix & 0x3, after),
            (header, after) => (header, 0, after),
        };
        if header < 0x40 {
            // Alignment, or nothing known: both have no payload.
            rest = after;
            continue;
        }
        let length = 1usize << (header >> 4 & 0x3);
        let Some((payload, next)) = after.split_at_checked(length) else { break };
        let value = payload.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        rest = next;
        if header == TIMESTAMP {
            found.extend(std::mem::take(&mut record).operation());
        } else {
            record.add(Packet::of(header, high), value);
        }
    }
    found
}

/// The packets of one operation.
#[derive(Default)]
struct Record {
    address: Option<u64>,
    write: Option<bool>,
    events: u64,
    source: Option<u64>,
    latency_cycles: Option<u32>,
}

impl Record {
    fn add(&mut self, packet: Packet, value: u64) {
        match packet {
            Packet::Events => self.events = value,
            Packet::Source => self.source = Some(value),
            Packet::Operation(LOAD_STORE) => self.write = Some(value & 1 != 0),
            Packet::Address(DATA_ADDRESS) => self.address = Some(untagged(value)),
            Packet::Counter(TOTAL_LATENCY) => self.latency_cycles = u32::try_from(value).ok(),
            _ => {}
        }
    }

    fn operation(self) -> Option<Operation> {
        let served_by = self.served_by();
        let Self { latency_cycles, .. } = self;
        Some(Operation { address: self.address?, write: self.write?, served_by, latency_cycles })
    }

    fn served_by(&self) -> Option<ServedBy> {
        match self.source {
            Some(0x0 | 0x8) => return Some(ServedBy::OwnCache),
            // A core of the same cluster, or another cluster's cache.
            Some(0x9 | 0xa | 0xc) => return Some(ServedBy::OtherCache),
            // The system's cache.
            Some(0xb) => return Some(ServedBy::SharedCache),
            // Of another package it does not say whether from memory or a cache; DRAM.
            Some(0xd | 0xe) => return Some(ServedBy::Dram),
            _ => {}
        }
        match self.events {
            events if events & LAST_LEVEL_MISS != 0 => Some(ServedBy::Dram),
            events if events & LAST_LEVEL_ACCESS != 0 => Some(ServedBy::SharedCache),
            _ => Some(ServedBy::OwnCache),
        }
    }
}

/// An address without its tag: bit 55 says what the upper bits are.
const fn untagged(address: u64) -> u64 {
    const TAG: u64 = 0xff << 56;
    if address & 1 << 55 == 0 { address & !TAG } else { address | TAG }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A record as a Neoverse core writes it: program counter, context, operation, address,
    /// latencies, events, source, timestamp.
    fn record(address: u64, store: bool, source: Option<u8>, events: u16) -> Vec<u8> {
        let mut bytes = vec![0xb0];
        bytes.extend(0x00aa_bbcc_ddee_ff00u64.to_le_bytes());
        bytes.extend([0x65, 1, 2, 3, 4]);
        bytes.extend([0x49, u8::from(store)]);
        bytes.push(0xb2);
        bytes.extend(address.to_le_bytes());
        bytes.extend([0x99, 4, 0]);
        bytes.extend([0x98, 0x2c, 0x01]);
        bytes.push(0x52);
        bytes.extend(events.to_le_bytes());
        bytes.extend(source.into_iter().flat_map(|source| [0x43, source]));
        bytes.extend([0x71, 1, 0, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    fn expected(address: u64, write: bool, served_by: ServedBy) -> Operation {
        Operation { address, write, served_by: Some(served_by), latency_cycles: Some(300) }
    }

    #[test]
    fn loads_and_stores_are_found() {
        use ServedBy::{Dram, OtherCache, OwnCache, SharedCache};
        let mut bytes = record(0xffff_8000_1000, false, Some(0xe), 0x216);
        bytes.extend([0, 0, 0]);
        // With a tag in its upper byte, and without a data source.
        bytes.extend(record(0x2b00_7fff_0000_1008, true, None, 0x312));
        bytes.extend(record(0x2000, false, Some(0xa), 0x12));
        bytes.extend(record(0x3000, false, None, 0x112));
        bytes.extend(record(0x4000, false, Some(0x0), 0x12));
        // A branch, closed by an end packet: no access.
        bytes.extend([0x4a, 1, 0xb1, 1, 2, 3, 4, 5, 6, 7, 8, 0x01]);
        assert_eq!(
            operations(&bytes),
            [
                expected(0xffff_8000_1000, false, Dram),
                expected(0x7fff_0000_1008, true, Dram),
                expected(0x2000, false, OtherCache),
                expected(0x3000, false, SharedCache),
                expected(0x4000, false, OwnCache),
            ]
        );
    }

    #[test]
    fn headers_with_a_prefix_are_other_packets() {
        // An address packet with index 10: not the data address, although its low bits are.
        let mut bytes = vec![0x49, 0, 0x21, 0xb2];
        bytes.extend(77u64.to_le_bytes());
        bytes.push(0x01);
        assert_eq!(operations(&bytes), []);
    }

    #[test]
    fn what_is_cut_off_is_left_out() {
        let whole = record(0x1000, true, Some(0xe), 0x216);
        for end in 0..whole.len() {
            assert_eq!(operations(&whole[..end]), []);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(operations(&bytes).len() <= bytes.len());
        }
    }
}
