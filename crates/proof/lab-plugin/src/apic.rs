//! Interrupts between CPUs through the x2APIC.
//!
//! Source: Intel, Software Developer's Manual, volume 3, 12.6.1 and 12.12.9: the interrupt command
//! register.

/// The register's number.
pub const COMMAND: u32 = 0x830;

/// The bits of the destination shorthand, and its values.
const SHORTHAND_SHIFT: u32 = 18;
const TO_ITSELF: u64 = 1;
const TO_ALL: u64 = 2;
const TO_OTHERS: u64 = 3;
/// The destination is a mask of CPUs in one cluster.
const LOGICAL: u64 = 1 << 11;
const DESTINATION_SHIFT: u32 = 32;
/// CPUs per cluster.
const CLUSTER: u32 = 16;

/// Whether a CPU with this APIC ID receives the interrupt of this command from another CPU or
/// itself.
pub fn reaches(command: u64, own: u32, is_sender: bool) -> bool {
    let destination = (command >> DESTINATION_SHIFT) as u32;
    match command >> SHORTHAND_SHIFT & 3 {
        TO_ITSELF => is_sender,
        TO_ALL => true,
        TO_OTHERS => !is_sender,
        _ if destination == u32::MAX => true,
        _ if command & LOGICAL != 0 => {
            destination >> CLUSTER == own / CLUSTER && destination >> (own % CLUSTER) & 1 != 0
        }
        _ => destination == own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(command: u64) -> Vec<u32> {
        (0..40).filter(|own| reaches(command, *own, *own == 5)).collect()
    }

    #[test]
    fn a_command_reaches_whom_it_names() {
        assert_eq!(reached(17 << 32 | 0xfd), [17]);
        assert_eq!(reached(0x2_0009 << 32 | LOGICAL | 0xfd), [32, 35]);
        assert_eq!(reached(1 << 18), [5]);
        assert_eq!(reached(2 << 18).len(), 40);
        assert_eq!(reached(3 << 18).len(), 39);
        assert_eq!(reached(0xffff_ffff << 32).len(), 40);
    }
}
