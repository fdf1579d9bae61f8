//! Instructions that tell a lab where a region of interest begins and ends. They do
//! nothing on hardware; `numapilot_lab_pmu::Mark` has their encoding.

use numapilot_lab_pmu::{Mark, MarkKind};

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
    /// The whole program begins.
    begin_whole, Begin, WHOLE
}
mark! {
    /// The whole program ends.
    end_whole, End, WHOLE
}
mark! {
    /// The region begins whose name was written to the PMU's mailbox.
    begin_named, Begin, NAMED
}
mark! {
    /// The region ends whose name was written to the PMU's mailbox.
    end_named, End, NAMED
}

mark! {
    /// A phase that a built-in workload is timed by begins.
    begin_work, Begin, WORK
}
mark! {
    /// It ends.
    end_work, End, WORK
}

#[cfg(test)]
mod tests {
    #[test]
    fn marks_do_nothing_here() {
        super::begin_whole();
        super::begin_named();
        super::begin_work();
        super::end_work();
        super::end_named();
        super::end_whole();
    }
}
