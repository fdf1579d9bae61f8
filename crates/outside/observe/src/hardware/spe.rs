//! Packets of Arm's Statistical Profiling Extension.
//!
//! Source: Arm Architecture Reference Manual for A-profile (DDI 0487), D17 "Statistical Profiling
//! Extension Sample Record Specification". The record of an operation is a sequence of packets that
//! ends with an end or a timestamp packet:
//!
//! ```text
//!  header:  0b.. ss ....  payload of 1, 2, 4 or 8 bytes by ss; below 0x40: padding, end,
//!           or a prefix with more bits of the index
//! ```

use super::spe_source::Sources;
use crate::sample::ServedBy;

/// One sampled load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Data address in the process.
    pub address: u64,
    /// A store.
    pub write: bool,
    /// The place from which it was served, if it is reported.
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

/// Bits of the events packet: access to the last level, and miss in the last level.
const LAST_LEVEL_ACCESS: u64 = 1 << 8;
const LAST_LEVEL_MISS: u64 = 1 << 9;

/// The kind and index of a packet, from its header.
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
    /// Parses a header. `high` is the upper part of the index, from a prefix.
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

/// The loads and stores in a part of an AUX area. `sources` is the meaning of the core's data
/// sources. Incomplete records at either end are ignored.
pub fn operations(bytes: &[u8], sources: Sources) -> Vec<Operation> {
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
                found.extend(std::mem::take(&mut record).operation(sources));
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
            // Alignment or an unknown header: neither has a payload.
            rest = after;
            continue;
        }
        let length = 1usize << (header >> 4 & 0x3);
        let Some((payload, next)) = after.split_at_checked(length) else { break };
        let value = payload.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        rest = next;
        if header == TIMESTAMP {
            found.extend(std::mem::take(&mut record).operation(sources));
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

    fn operation(self, sources: Sources) -> Option<Operation> {
        let by_source = self.source.and_then(|source| sources.served_by(source));
        let served_by = Some(by_source.unwrap_or_else(|| self.by_events()));
        let Self { latency_cycles, .. } = self;
        Some(Operation { address: self.address?, write: self.write?, served_by, latency_cycles })
    }

    /// The place from which it was served, derived from the events.
    const fn by_events(&self) -> ServedBy {
        match self.events {
            events if events & LAST_LEVEL_MISS != 0 => ServedBy::Dram,
            events if events & LAST_LEVEL_ACCESS != 0 => ServedBy::SharedCache,
            _ => ServedBy::OwnCache,
        }
    }
}

/// Removes the tag of an address. Bit 55 determines the upper bits.
const fn untagged(address: u64) -> u64 {
    const TAG: u64 = 0xff << 56;
    if address & 1 << 55 == 0 { address & !TAG } else { address | TAG }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A record in the order of a Neoverse core: program counter, context, operation, address,
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
        // A branch that ends with an end packet: not an access.
        bytes.extend([0x4a, 1, 0xb1, 1, 2, 3, 4, 5, 6, 7, 8, 0x01]);
        assert_eq!(
            operations(&bytes, Sources::Arm),
            [
                expected(0xffff_8000_1000, false, Dram),
                expected(0x7fff_0000_1008, true, Dram),
                expected(0x2000, false, OtherCache),
                expected(0x3000, false, SharedCache),
                expected(0x4000, false, OwnCache),
            ]
        );
    }

    /// Published dumps of perf (`perf report -D`), with perf's interpretation.
    #[test]
    fn recorded_by_hardware() {
        use ServedBy::{Dram, OtherCache, OwnCache};
        let whole = |address, served_by, cycles| Operation {
            address,
            write: false,
            served_by: Some(served_by),
            latency_cycles: Some(cycles),
        };
        // Ampere Altra (Neoverse N1; AmpereComputing/ampere-lts-kernel, issue 123): a load of
        // the kernel, LLC-REFILL, 501 cycles in all, data source 12: from another cluster.
        let altra = [
            0x49, 0x00, 0x52, 0x1e, 0x03, 0x99, 0x51, 0x01, 0x98, 0xf5, 0x01, 0xb2, 0x50, 0x9e,
            0xd7, 0xf1, 0x3e, 0x40, 0xff, 0x00, 0x9a, 0x01, 0x00, 0xb3, 0x50, 0x9e, 0xd7, 0x71,
            0x3f, 0x40, 0x00, 0x80, 0x43, 0x0c, 0x00, 0x00, 0x71, 0xb3, 0x9a, 0xe9, 0xbd, 0x3e,
            0x07, 0x00, 0x00, 0xb0, 0x88, 0xb6, 0xcb, 0x8f, 0x22, 0xd4, 0xff, 0xc0,
        ];
        let address = 0xffff_403e_f1d7_9e50;
        assert_eq!(operations(&altra, Sources::Arm), [whole(address, OtherCache, 501)]);
        assert_eq!(operations(&altra, Sources::Unknown), [whole(address, Dram, 501)]);
        // A guest of KVM ("target/arm: Add vSPE support to KVM guest", qemu-devel, August 2020): a
        // load that its own cache served in 13 cycles, without a data source; an instruction
        // without an access.
        let guest = [
            0xb0, 0xf4, 0xd3, 0x29, 0x10, 0x00, 0x80, 0xff, 0xa0, 0x99, 0x0b, 0x00, 0x98, 0x0d,
            0x00, 0x52, 0x16, 0x00, 0x49, 0x00, 0xb2, 0xd0, 0x40, 0xd8, 0x70, 0x00, 0x00, 0xff,
            0x00, 0x9a, 0x01, 0x00, 0x00, 0x00, 0x00, 0x71, 0xa5, 0x1f, 0xb3, 0x20, 0x14, 0x00,
            0x00, 0x00, 0xb0, 0x7c, 0xf9, 0x29, 0x10, 0x00, 0x80, 0xff, 0xa0, 0x99, 0x02, 0x00,
            0x98, 0x03, 0x00, 0x52, 0x02, 0x00, 0x48, 0x00, 0x00, 0x00, 0x00, 0x71, 0xef, 0x1f,
            0xb3, 0x20, 0x14, 0x00, 0x00, 0x00,
        ];
        let address = 0xffff_0000_70d8_40d0;
        assert_eq!(operations(&guest, Sources::Arm), [whole(address, OwnCache, 13)]);
        // Linux ffd3d18c20b8, which gave perf its decoder: events of one byte.
        let first = [
            0x49, 0x00, 0xb2, 0xc0, 0x3b, 0x29, 0x0f, 0x00, 0x00, 0xff, 0xff, 0xb3, 0xc0, 0xeb,
            0x24, 0xfb, 0x00, 0x00, 0x00, 0x80, 0x9a, 0x00, 0x00, 0x42, 0x16, 0xb0, 0x00, 0xc4,
            0x15, 0x08, 0x00, 0x00, 0xff, 0xff, 0x98, 0x00, 0x00, 0x71, 0x36, 0x6c, 0x21, 0x2c,
            0x09, 0x00, 0x00, 0x00, 0x49, 0x00, 0xb2, 0x80, 0x3c, 0x29,
        ];
        let address = 0xffff_0000_0f29_3bc0;
        assert_eq!(operations(&first, Sources::Arm), [whole(address, OwnCache, 0)]);
    }

    #[test]
    fn headers_with_a_prefix_are_other_packets() {
        // An address packet with index 10: not the data address, although its low bits are.
        let mut bytes = vec![0x49, 0, 0x21, 0xb2];
        bytes.extend(77u64.to_le_bytes());
        bytes.push(0x01);
        assert_eq!(operations(&bytes, Sources::Arm), []);
    }

    #[test]
    fn what_is_cut_off_is_left_out() {
        let whole = record(0x1000, true, Some(0xe), 0x216);
        for end in 0..whole.len() {
            assert_eq!(operations(&whole[..end], Sources::Arm), []);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(operations(&bytes, Sources::Arm).len() <= bytes.len());
        }
    }
}
