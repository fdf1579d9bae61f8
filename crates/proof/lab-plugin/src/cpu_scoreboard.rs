//! The counters of each CPU that QEMU's translated code updates.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use numapilot_lab_model::Executed;

/// User instructions after which a CPU publishes its clock and compares it with the others'.
pub const BUDGET: u64 = 4096;
/// Bits of each access count, far more than the instructions of a budget can reach.
const COUNT_BITS: u32 = 20;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// The counts of one or more blocks. Packed into a word, they are added by QEMU at once, and the
/// instructions, which are in the highest bits, can be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    pub instructions: u64,
    /// Reads, whether reported or not.
    pub reads: u64,
    /// Writes, whether reported or not.
    pub writes: u64,
}

impl Block {
    /// Packs the counts into a word.
    pub fn pack(self) -> u64 {
        self.instructions << (2 * COUNT_BITS) | self.reads << COUNT_BITS | self.writes
    }

    fn unpack(word: u64) -> Self {
        Self {
            instructions: word >> (2 * COUNT_BITS),
            reads: word >> COUNT_BITS & COUNT_MASK,
            writes: word & COUNT_MASK,
        }
    }
}

/// The counters of a CPU; see the module documentation. Only the CPU itself writes them.
#[repr(C)]
#[derive(Debug, Default)]
pub struct CpuScoreboard {
    /// Kernel instructions.
    pub kernel: AtomicU64,
    /// Counts of user blocks since the last [`BUDGET`] was used up, packed.
    pub block: AtomicU64,
    /// Earlier counts, which translated code does not touch.
    user: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    /// Keeps the next CPU's counters out of the host's cache line, wherever in a line QEMU places
    /// the first one. Translated code multiplies by the total size for each block, so that is a
    /// power of two.
    _apart: [AtomicU64; 11],
}

impl CpuScoreboard {
    /// User instructions.
    #[inline]
    pub fn instructions(&self) -> u64 {
        let block = Block::unpack(self.block.load(Relaxed));
        self.user.load(Relaxed).wrapping_add(block.instructions)
    }

    /// All counts.
    pub fn executed(&self) -> Executed {
        let block = Block::unpack(self.block.load(Relaxed));
        Executed {
            user: self.instructions(),
            kernel: self.kernel.load(Relaxed),
            reads: self.reads.load(Relaxed) + block.reads,
            writes: self.writes.load(Relaxed) + block.writes,
        }
    }

    /// Sets the used part of the budget without changing the counts. Must be called by the CPU
    /// itself.
    pub fn set_budget(&self, used: u64) {
        let Executed { user, reads, writes, .. } = self.executed();
        self.user.store(user.wrapping_sub(used), Relaxed);
        self.reads.store(reads, Relaxed);
        self.writes.store(writes, Relaxed);
        self.block.store(Block { instructions: used, ..Block::default() }.pack(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_kept_whatever_the_budget() {
        let scoreboard = CpuScoreboard::default();
        scoreboard.set_budget(BUDGET);
        assert_eq!(scoreboard.executed(), Executed::default());
        scoreboard.set_budget(0);
        let block = Block { instructions: 90, reads: 11, writes: COUNT_MASK - 5 };
        assert_eq!(Block::unpack(block.pack()), block);
        scoreboard.block.fetch_add(block.pack(), Relaxed);
        scoreboard.set_budget(BUDGET - 64);
        scoreboard.block.fetch_add(Block { instructions: 64, reads: 1, writes: 9 }.pack(), Relaxed);
        let full = Block { instructions: BUDGET, ..Block::default() };
        assert!(scoreboard.block.load(Relaxed) >= full.pack());
        let expected = Executed { user: 154, kernel: 0, reads: 12, writes: COUNT_MASK + 4 };
        assert_eq!(scoreboard.executed(), expected);
    }
}
