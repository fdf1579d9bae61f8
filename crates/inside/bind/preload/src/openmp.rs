//! OpenMP runtimes. They place their threads themselves, and the launcher gives them its order of CPUs
//! in `OMP_PLACES`, so their choice counts as a placement, not as the program's own.

use core::arch::global_asm;

use numapilot_bind::address_of;

use crate::env::variable;

// A function of every OpenMP runtime (OpenMP 5.2, section 18.2.7). It is found if the program is
// linked with one. One that is loaded later counts as the program's own choice.
global_asm!(".weak omp_get_num_procs");

/// Whether the program has an OpenMP runtime that places its threads on the CPUs of this order.
pub fn follows(order: &[u16]) -> bool {
    let places = || variable("OMP_PLACES").is_some_and(|places| are(places.to_bytes(), order));
    address_of!("omp_get_num_procs") != 0 && places()
}

/// Whether the places are these CPUs, one each: `{0},{4}`.
fn are(places: &[u8], order: &[u16]) -> bool {
    let cpu = |place: &[u8]| -> Option<u16> {
        let number = place.strip_prefix(b"{")?.strip_suffix(b"}")?;
        core::str::from_utf8(number).ok()?.parse().ok()
    };
    places.split(|byte| *byte == b',').map(cpu).eq(order.iter().copied().map(Some))
}
