//! The node on which the calling thread runs, without a system call.
//!
//! Source: rseq(2). The kernel writes a thread's CPU and node into the thread's own memory. glibc
//! 2.35 and later register that memory and export its position. Linux 6.3 and later maintain
//! `node_id`, which AT_RSEQ_FEATURE_SIZE shows.

use core::arch::{asm, global_asm};

use numapilot_bind::address_of;

// Null where the C library does not have them.
global_asm!(".weak __rseq_offset", ".weak __rseq_size");

/// Offsets in `struct rseq` (include/uapi/linux/rseq.h).
const CPU_ID: isize = 4;
const NODE_ID: isize = 20;
/// Bytes of the structure that a kernel with `node_id` fills.
const WITH_NODE_ID: u64 = 24;
const AT_RSEQ_FEATURE_SIZE: u64 = 27;

/// How the node is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The node, at this distance from the thread pointer.
    Node(isize),
    /// The CPU, at this distance from the thread pointer.
    Cpu(isize),
    /// The CPU by sched_getcpu(3), which on most machines needs no system call.
    Call,
}

impl Way {
    /// The fastest way that this system supports.
    pub fn find() -> Self {
        let (offset, size) = (address_of!("__rseq_offset"), address_of!("__rseq_size"));
        if offset == 0 || size == 0 {
            return Self::Call;
        }
        // SAFETY: the symbols exist, and these are their types (rseq, glibc's manual).
        let (offset, size) = unsafe { (*(offset as *const isize), *(size as *const u32)) };
        // SAFETY: takes a constant; returns 0 where the kernel does not know it.
        let filled = unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) };
        match size {
            // Not registered: the kernel does not support it, or the user switched it off
            // (glibc.pthread.rseq=0).
            0 => Self::Call,
            _ if filled >= WITH_NODE_ID => Self::Node(offset + NODE_ID),
            _ => Self::Cpu(offset + CPU_ID),
        }
    }
}

/// A word of the calling thread's own memory, which the kernel may change at any time.
///
/// # Safety
/// Every thread has a word at this distance from its thread pointer.
#[inline]
pub unsafe fn own_word(distance: isize) -> u32 {
    let word: u32;
    // SAFETY: by contract; it only loads.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "mov {word:e}, dword ptr fs:[{distance}]",
            word = lateout(reg) word,
            distance = in(reg) distance,
            options(readonly, nostack, preserves_flags),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "mrs {pointer}, tpidr_el0",
            "ldr {word:w}, [{pointer}, {distance}]",
            pointer = out(reg) _,
            word = lateout(reg) word,
            distance = in(reg) distance,
            options(readonly, nostack, preserves_flags),
        );
    }
    word
}

/// The CPU from the C library; `None` where it does not know.
pub fn cpu_by_call() -> Option<u32> {
    // SAFETY: takes nothing.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}
