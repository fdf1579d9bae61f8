//! The data source of an access in perf's format.
//!
//! Source: `union perf_mem_data_src` in include/uapi/linux/perf_event.h. Newer kernels and
//! processors set the level number, older ones the bits of the level, and some set both.

use crate::sample::ServedBy;

/// Fields, by their lowest bit and width.
const OPERATION: (u32, u32) = (0, 5);
const LEVEL: (u32, u32) = (5, 14);
const SNOOP: (u32, u32) = (19, 5);
const LEVEL_NUMBER: (u32, u32) = (33, 4);
const REMOTE: (u32, u32) = (37, 1);
const SNOOP_EXTENSION: (u32, u32) = (38, 2);
const HOPS: (u32, u32) = (43, 3);

const LOAD: u64 = 0x02;
const STORE: u64 = 0x04;

/// Bits of the level.
const HIT: u64 = 0x02;
const L1: u64 = 0x08;
const LINE_FILL_BUFFER: u64 = 0x10;
const L2: u64 = 0x20;
const L3: u64 = 0x40;
/// Local memory, and remote memory one and two hops away.
const ANY_MEMORY: u64 = 0x80 | 0x100 | 0x200;
/// A cache of another package, one and two hops away.
const REMOTE_CACHE: u64 = 0x400 | 0x800;

/// A line that another cache had modified, or forwarded.
const SNOOP_MODIFIED: u64 = 0x10;
const FORWARDED_OR_PEER: u64 = 0x3;

/// A data source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataSource(pub u64);

impl DataSource {
    const fn field(self, (from, width): (u32, u32)) -> u64 {
        self.0 >> from & ((1 << width) - 1)
    }

    /// Whether the instruction was a load or a store. IBS tags any instruction.
    pub const fn is_access(self) -> bool {
        self.field(OPERATION) & (LOAD | STORE) != 0
    }

    /// Whether it was a store.
    pub const fn is_store(self) -> bool {
        self.field(OPERATION) & STORE != 0
    }

    /// The place from which the access was served, or `None` if it is not reported.
    pub const fn served_by(self) -> Option<ServedBy> {
        let another = self.field(SNOOP) & SNOOP_MODIFIED != 0
            || self.field(SNOOP_EXTENSION) & FORWARDED_OR_PEER != 0
            || self.field(REMOTE) != 0
            || self.field(HOPS) != 0;
        let shared = if another { ServedBy::OtherCache } else { ServedBy::SharedCache };
        match self.field(LEVEL_NUMBER) {
            // L1, L2, the miss handling of L2, and the line fill buffer.
            1 | 2 | 5 | 0xc => return Some(ServedBy::OwnCache),
            // L3, L4.
            3 | 4 => return Some(shared),
            0xb => return Some(ServedBy::OtherCache),
            // Memory side cache, CXL, RAM, persistent memory.
            6 | 9 | 0xd | 0xe => return Some(ServedBy::Dram),
            _ => {}
        }
        let level = self.field(LEVEL);
        if level & HIT == 0 {
            return None;
        }
        if level & REMOTE_CACHE != 0 {
            Some(ServedBy::OtherCache)
        } else if level & ANY_MEMORY != 0 {
            Some(ServedBy::Dram)
        } else if level & L3 != 0 {
            Some(shared)
        } else if level & (L1 | LINE_FILL_BUFFER | L2) != 0 {
            Some(ServedBy::OwnCache)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `PERF_MEM_S(...)` with the fields of the header.
    fn source(operation: u64, level: u64, snoop: u64, number: u64, remote: u64) -> DataSource {
        DataSource(operation | level << 5 | snoop << 19 | number << 33 | remote << 37)
    }

    #[test]
    fn what_kernels_write() {
        use ServedBy::{Dram, OtherCache, OwnCache, SharedCache};
        // Linux arch/x86/events/intel/ds.c, pebs_data_source, as the header's words.
        for (found, expected) in [
            // OP_LH | P(LVL, L1) | LEVEL(L1) | P(SNOOP, NONE)
            (source(LOAD, 0x0a, 2, 1, 0), OwnCache),
            // OP_LH | P(LVL, L3) | LEVEL(L3) | P(SNOOP, NONE)
            (source(LOAD, 0x42, 2, 3, 0), SharedCache),
            // the same with P(SNOOP, HITM)
            (source(LOAD, 0x42, 0x10, 3, 0), OtherCache),
            // OP_LH | P(LVL, REM_CCE1) | REM | LEVEL(L3) | P(SNOOP, HIT)
            (source(LOAD, 0x402, 4, 3, 1), OtherCache),
            // OP_LH | P(LVL, LOC_RAM) | LEVEL(RAM) | P(SNOOP, HIT)
            (source(LOAD, 0x82, 4, 0xd, 0), Dram),
            // OP_LH | P(LVL, REM_RAM1) | REM | LEVEL(RAM) | P(SNOOP, NONE)
            (source(LOAD, 0x102, 2, 0xd, 1), Dram),
            // Before the level numbers: Linux 4.13.
            (source(LOAD, 0x102, 2, 0, 0), Dram),
            (source(LOAD, 0x12, 2, 0, 0), OwnCache),
            (source(LOAD, 0x402, 0x10, 0, 0), OtherCache),
            // arch/x86/events/amd/ibs.c, Zen 4: a near cache of the same package, CXL memory.
            (source(LOAD, 2, 0, 0xb, 0), OtherCache),
            (source(STORE, 2, 0, 9, 1), Dram),
        ] {
            assert_eq!(found.served_by(), Some(expected), "{:#x}", found.0);
            assert!(found.is_access());
        }
        assert!(source(STORE, 2, 0, 9, 1).is_store() && !source(LOAD, 2, 0, 9, 1).is_store());
        // PERF_MEM_NA: not a memory access, and a level that is not available.
        assert!(!source(1, 1, 1, 0xf, 0).is_access());
        assert_eq!(source(LOAD, 1, 1, 0xf, 0).served_by(), None);
    }

    /// Published words that perf has recorded, with the names that `perf script` gives them.
    #[test]
    fn recorded_by_hardware() {
        use ServedBy::{Dram, OtherCache, OwnCache, SharedCache};
        for (word, expected) in [
            // PEBS ("perf bpf filter: Add logical OR operator", linux-kernel, 2023-03-07; "perf
            // script: Fix output type for dynamically allocated core PMU's", 2024-12-13): L1, the
            // same with a lock, L2, line fill buffer, L3.
            (0x102_6810_0142, OwnCache),
            (0x102_6a10_0142, OwnCache),
            (0x104_6810_0442, OwnCache),
            (0x118_6810_0242, OwnCache),
            (0x106_6810_0842, SharedCache),
            // IBS with levels as bits (cover letter of the former series): L1, L2, miss address
            // buffer, "L3 or Remote Cache (1 hop)".
            (0x4908_0142, OwnCache),
            (0x4908_0442, OwnCache),
            (0x5108_0242, OwnCache),
            (0x5108_8842, OtherCache),
            // IBS with level numbers, of Linux 6.1 on: L1, L3 with a line that another cache had
            // modified, memory.
            (0x2_2908_0142, OwnCache),
            (0x6_2980_0842, OtherCache),
            (0x1a_4908_1042, Dram),
        ] {
            let word = DataSource(word);
            assert!(word.is_access() && !word.is_store(), "{:#x}", word.0);
            assert_eq!(word.served_by(), Some(expected), "{:#x}", word.0);
        }
        // A store to the first level, a store without a level, and an instruction without an
        // access.
        assert!(DataSource(0x2_2908_0144).is_store());
        let untold = DataSource(0x1e_2908_0024);
        assert_eq!((untold.is_store(), untold.served_by()), (true, None));
        assert!(!DataSource(0x1e_0508_0021).is_access() && !DataSource(0x508_0021).is_access());
    }

    proptest! {
        #[test]
        fn any_word_is_read(word: u64) {
            let source = DataSource(word);
            let _ = (source.served_by(), source.is_store());
        }
    }
}
