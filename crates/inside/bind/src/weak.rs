//! Weak symbols: functions that a program may lack.

/// The address of a symbol that is declared weak (`.weak` in `global_asm!`), from the global offset
/// table, or 0 if the program lacks it. Stable Rust has no weak symbols.
#[macro_export]
#[doc(hidden)]
macro_rules! address_of {
    ($symbol:literal) => {{
        let address: usize;
        // SAFETY: reads the table's entry, which the dynamic linker has filled.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            core::arch::asm!(
                concat!("mov {}, qword ptr [rip + ", $symbol, "@GOTPCREL]"),
                out(reg) address,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            core::arch::asm!(
                concat!("adrp {0}, :got:", $symbol),
                concat!("ldr {0}, [{0}, :got_lo12:", $symbol, "]"),
                out(reg) address,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        address
    }};
}
