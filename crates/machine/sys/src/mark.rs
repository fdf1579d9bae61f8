//! Instructions that mark the beginning and end of a region of interest for a lab. They do nothing
//! on hardware. Their encoding is in `numapilot_lab_pmu::Mark`.

#[cfg(target_arch = "x86_64")]
use numapilot_lab_pmu::{Mark, MarkKind};

#[cfg(target_arch = "x86_64")]
const fn displacement(kind: MarkKind, slot: u8) -> u32 {
    Mark { kind, slot }.displacement()
}

macro_rules! mark {
    ($(#[$doc:meta])* $name:ident, $kind:ident, $slot:ident) => {
        $(#[$doc])*
        pub fn $name() {
            // SAFETY: a NOP.
            #[cfg(target_arch = "x86_64")]
            unsafe {
                std::arch::asm!(
                    ".byte 0x0f, 0x1f, 0x80",
                    ".long {mark}",
                    mark = const displacement(MarkKind::$kind, Mark::$slot),
                    options(preserves_flags, nostack),
                );
            }
        }
    };
}

mark! {
    /// Begins the whole program.
    begin_whole, Begin, WHOLE
}
mark! {
    /// Ends the whole program.
    end_whole, End, WHOLE
}
mark! {
    /// Begins the region whose name was written to the PMU's mailbox.
    begin_named, Begin, NAMED
}
mark! {
    /// Ends the region whose name was written to the PMU's mailbox.
    end_named, End, NAMED
}

mark! {
    /// Begins the program that `numapilot run` starts.
    begin_program, Begin, PROGRAM
}

mark! {
    /// Begins the timed phase of a built-in workload.
    begin_work, Begin, WORK
}
mark! {
    /// Ends the timed phase of a built-in workload.
    end_work, End, WORK
}

/// Calls the lab's host, which serves the call in the mailbox that process 1 of the guest shares
/// with it (`numapilot_lab_init::mailbox`).
pub fn call_host() {
    // SAFETY: a NOP. Without `nomem`, the compiler assumes that it reads and writes memory, as the
    // host does.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x80",
            ".long {call}",
            call = const numapilot_lab_pmu::CALL,
            options(preserves_flags, nostack),
        );
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn marks_do_nothing_here() {
        super::call_host();
        super::begin_whole();
        super::begin_named();
        super::begin_program();
        super::begin_work();
        super::end_work();
        super::end_named();
        super::end_whole();
    }
}
