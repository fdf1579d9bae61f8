//! The home node of guest-physical memory, which is looked up for every translated page and every
//! write-back.

use crate::MemoryRange;
use crate::layout::PAGE_BYTES;

/// Marks addresses without memory.
const NOWHERE: u16 = u16::MAX;

/// The physical addresses, divided into chunks of the largest size that no range splits.
#[derive(Debug)]
pub(crate) struct HomeMap {
    nodes: Box<[u16]>,
    part_bits: u32,
}

impl HomeMap {
    /// The map of ranges that start and end at page boundaries.
    pub(crate) fn new(ranges: &[MemoryRange]) -> Self {
        let ends = ranges.iter().flat_map(|range| [range.start, range.start + range.bytes]);
        let part_bits = ends.clone().map(u64::trailing_zeros).min().unwrap_or(0);
        let part_bits = part_bits.clamp(PAGE_BYTES.ilog2(), u64::BITS - 1);
        let mut nodes = vec![NOWHERE; ends.max().map_or(0, |end| (end >> part_bits) as usize)];
        for range in ranges {
            let (first, end) = (range.start, range.start + range.bytes);
            nodes[(first >> part_bits) as usize..(end >> part_bits) as usize]
                .fill(u16::try_from(range.node).unwrap_or(NOWHERE));
        }
        Self { nodes: nodes.into(), part_bits }
    }

    /// The home node of a physical address; `None` if there is no memory.
    #[inline]
    pub(crate) fn node_of(&self, address: u64) -> Option<usize> {
        let node = *self.nodes.get((address >> self.part_bits) as usize)?;
        (node != NOWHERE).then_some(node.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn addresses_are_at_home_in_the_range_that_holds_them(
            pieces in prop::collection::vec((0u64..4, 1u64..9, 0usize..8), 1..6),
            bits in 12u32..21,
            addresses in prop::collection::vec(0u64..64, 20),
        ) {
            let mut start = 0;
            let ranges: Vec<MemoryRange> = pieces
                .iter()
                .map(|&(hole, parts, node)| {
                    let (first, bytes) = (start + (hole << bits), parts << bits);
                    start = first + bytes;
                    MemoryRange { node, start: first, bytes }
                })
                .collect();
            let home_map = HomeMap::new(&ranges);
            let edges = addresses.iter().flat_map(|part| [part << bits, (part << bits) + 4095]);
            for address in edges.chain([u64::MAX]) {
                let holds = |r: &&MemoryRange| (r.start..r.start + r.bytes).contains(&address);
                let holder = ranges.iter().find(holds);
                prop_assert_eq!(home_map.node_of(address), holder.map(|range| range.node));
            }
        }
    }
}
