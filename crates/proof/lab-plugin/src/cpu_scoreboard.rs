//! The counters of each CPU that QEMU's translated code updates, and the CPU's budget.
//!
//! The budget limits how long a CPU runs before it calls the scheduler. Its unit is the time of one
//! instruction. Stalls are charged to it as the number of instructions that take the same time.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

use numapilot_lab_model::{Accesses, Executed};

/// The value of the instruction count at which a CPU calls the scheduler, and so the largest
/// budget.
pub const BUDGET: u64 = 1 << 22;
/// Bits of each count of accesses. They suffice for one access in every fourth instruction of a
/// whole budget; translated code calls the scheduler before a count overflows unless it executes
/// more accesses than that without a backward jump.
const COUNT_BITS: u32 = 20;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
/// The largest number of instructions that a packed word can hold.
const MOST: u64 = (1 << (64 - 2 * COUNT_BITS)) - 1;

/// Counts of one or more translation blocks. They are packed into one word, so that translated code
/// updates them by one addition. The instructions are in the highest bits, so that translated code
/// can compare the word with the budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    pub instructions: u64,
    /// Reads, whether reported to the model or not.
    pub reads: u64,
    /// Writes, whether reported to the model or not.
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

/// The counters of one CPU; see the module documentation. Only the CPU thread accesses them; the
/// words are atomics because translated code updates them too.
#[repr(C)]
#[derive(Debug, Default)]
pub struct CpuScoreboard {
    /// Instructions of user mode and of the kernel, and accesses of user mode, since the last
    /// grant, packed. The instruction count starts at the part of [`BUDGET`] that was not granted,
    /// and includes the charged stalls.
    pub block: AtomicU64,
    /// Instructions and accesses of the kernel since the last grant, packed.
    pub kernel_block: AtomicU64,
    /// The part of the instruction count of `block` that was not executed: the start value and the
    /// charges.
    not_executed: AtomicU64,
    /// Instructions and accesses up to the last grant.
    instructions: AtomicU64,
    kernel_instructions: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    kernel_reads: AtomicU64,
    kernel_writes: AtomicU64,
    /// The address after the last instruction that enabled interrupts (`sti`).
    pub interrupts_from: AtomicU64,
    /// Pads the structure to a power of two: translated code multiplies the CPU's number by its
    /// size in each block.
    _apart: [AtomicU64; 6],
}

impl CpuScoreboard {
    /// Instructions and accesses executed so far.
    #[inline]
    pub fn executed(&self) -> Executed {
        let block = Block::unpack(self.block.load(Relaxed));
        let kernel = Block::unpack(self.kernel_block.load(Relaxed));
        let all =
            self.instructions.load(Relaxed) + block.instructions - self.not_executed.load(Relaxed);
        let kernel_instructions = self.kernel_instructions.load(Relaxed) + kernel.instructions;
        Executed {
            user: Accesses {
                instructions: all - kernel_instructions,
                reads: self.reads.load(Relaxed) + block.reads,
                writes: self.writes.load(Relaxed) + block.writes,
            },
            kernel: Accesses {
                instructions: kernel_instructions,
                reads: self.kernel_reads.load(Relaxed) + kernel.reads,
                writes: self.kernel_writes.load(Relaxed) + kernel.writes,
            },
        }
    }

    /// Instructions executed so far, in user mode and in the kernel.
    #[inline]
    pub fn instructions(&self) -> u64 {
        let block = Block::unpack(self.block.load(Relaxed));
        self.instructions.load(Relaxed) + block.instructions - self.not_executed.load(Relaxed)
    }

    /// Grants the CPU a new budget of instructions, at most [`BUDGET`].
    pub fn grant(&self, instructions: u64) {
        let Executed { user, kernel } = self.executed();
        let used = BUDGET - instructions.min(BUDGET);
        self.instructions.store(user.instructions + kernel.instructions, Relaxed);
        self.kernel_instructions.store(kernel.instructions, Relaxed);
        self.reads.store(user.reads, Relaxed);
        self.writes.store(user.writes, Relaxed);
        self.kernel_reads.store(kernel.reads, Relaxed);
        self.kernel_writes.store(kernel.writes, Relaxed);
        self.not_executed.store(used, Relaxed);
        self.kernel_block.store(0, Relaxed);
        self.block.store(Block { instructions: used, ..Block::default() }.pack(), Relaxed);
    }

    /// Charges the CPU's budget with the time of a number of instructions.
    #[inline]
    pub fn charge(&self, instructions: u64) {
        let word = self.block.load(Relaxed);
        // Beyond twice the budget, a larger charge has no further effect and could overflow.
        let room = (2 * BUDGET).saturating_sub(Block::unpack(word).instructions);
        let charged = instructions.min(room);
        self.block.store(word + (charged << (2 * COUNT_BITS)), Relaxed);
        self.not_executed.store(self.not_executed.load(Relaxed) + charged, Relaxed);
    }
}

const _: () = assert!(3 * BUDGET < MOST);

/// Where QEMU keeps the element of a CPU. It moves the elements of all CPUs when it sets up a CPU
/// beyond their capacity: the 17th, the 33rd and so on.
#[derive(Debug, Default)]
pub struct Place(AtomicPtr<CpuScoreboard>);

impl Place {
    /// The element; `None` until QEMU has set up the CPU.
    #[inline]
    pub fn get(&self) -> Option<&CpuScoreboard> {
        // SAFETY: null, or the place of an element, which is set again whenever elements move. QEMU
        // never frees a scoreboard by itself.
        unsafe { self.0.load(Relaxed).as_ref() }
    }

    /// Sets the place.
    ///
    /// # Safety
    /// It is null or that of an element, and is set again when QEMU moves the element. No reference
    /// to the element at its former place is in use.
    pub unsafe fn set(&self, element: *mut CpuScoreboard) {
        self.0.store(element, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(instructions: u64, reads: u64, writes: u64) -> Accesses {
        Accesses { instructions, reads, writes }
    }

    fn add(word: &AtomicU64, instructions: u64, reads: u64, writes: u64) {
        word.fetch_add(Block { instructions, reads, writes }.pack(), Relaxed);
    }

    #[test]
    fn counts_are_kept_whatever_the_budget() {
        let scoreboard = CpuScoreboard::default();
        scoreboard.grant(0);
        assert_eq!(scoreboard.executed(), Executed::default());
        scoreboard.grant(BUDGET);
        add(&scoreboard.block, 90, 11, COUNT_MASK - 5);
        scoreboard.charge(5000);
        scoreboard.grant(64);
        // A block of the kernel counts in both.
        add(&scoreboard.block, 60, 0, 0);
        add(&scoreboard.kernel_block, 60, 7, 3);
        add(&scoreboard.block, 4, 1, 9);
        let expected = Executed { user: counts(94, 12, COUNT_MASK + 4), kernel: counts(60, 7, 3) };
        assert_eq!(scoreboard.executed(), expected);
        assert_eq!(scoreboard.instructions(), 154);
        scoreboard.grant(1);
        assert_eq!(scoreboard.executed(), expected);
    }

    #[test]
    fn a_charge_uses_the_budget_up() {
        let scoreboard = CpuScoreboard::default();
        let used = || Block::unpack(scoreboard.block.load(Relaxed)).instructions;
        scoreboard.grant(100);
        scoreboard.charge(99);
        assert!(used() < BUDGET);
        scoreboard.charge(1);
        assert!(used() >= BUDGET);
        scoreboard.charge(u64::MAX / 2);
        assert!(used() <= MOST);
        assert_eq!(scoreboard.executed(), Executed::default());
    }

    #[test]
    fn the_size_is_a_power_of_two() {
        assert!(size_of::<CpuScoreboard>().is_power_of_two());
    }
}
