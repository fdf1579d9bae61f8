//! OpenMP runtimes. They place their threads themselves, and the launcher gives them its order of CPUs
//! in `OMP_PLACES`. In each process they begin with the first place, so several processes would share
//! CPUs. Therefore a runtime's choice is answered with a CPU of the occupancy table, which follows the
//! same order.
//!
//! A runtime is known by its code, from which the affinity functions are called: what the program
//! itself chooses, also inside a parallel region, is its own choice.

use core::ffi::{CStr, c_int, c_void};

use libc::{dl_phdr_info, size_t};

use crate::env::variable;

/// How the file name of GCC's runtime begins. Those of LLVM and Intel set affinities by direct system
/// calls.
const RUNTIME: &[u8] = b"libgomp.";

/// Whether OpenMP runtimes are given this order of CPUs.
pub fn has_the_order(order: &[u16]) -> bool {
    variable("OMP_PLACES").is_some_and(|places| are(places.to_bytes(), order))
}

/// Whether the places are these CPUs, one each: `{0},{4}`.
fn are(places: &[u8], order: &[u16]) -> bool {
    let cpu = |place: &[u8]| -> Option<u16> {
        let number = place.strip_prefix(b"{")?.strip_suffix(b"}")?;
        core::str::from_utf8(number).ok()?.parse().ok()
    };
    places.split(|byte| *byte == b',').map(cpu).eq(order.iter().copied().map(Some))
}

/// Whether this address is in the code of an OpenMP runtime.
pub fn has_code_at(address: usize) -> bool {
    let mut address = address;
    // SAFETY: the callback has the required signature, and the address outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(is_in_runtime), (&raw mut address).cast()) != 0 }
}

/// Called for each loaded file until it returns another number than 0.
unsafe extern "C" fn is_in_runtime(
    file: *mut dl_phdr_info,
    _size: size_t,
    address: *mut c_void,
) -> c_int {
    // SAFETY: `has_code_at` passes a pointer to a number, and the loader a valid description.
    let (file, address) = unsafe { (&*file, *address.cast::<usize>()) };
    if file.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: the loader's names are C strings.
    let path = unsafe { CStr::from_ptr(file.dlpi_name) }.to_bytes();
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if !name.starts_with(RUNTIME) {
        return 0;
    }
    // SAFETY: the table has this many entries.
    let segments =
        unsafe { core::slice::from_raw_parts(file.dlpi_phdr, usize::from(file.dlpi_phnum)) };
    let is_in = |segment: &libc::Elf64_Phdr| {
        let start = (file.dlpi_addr as usize).wrapping_add(segment.p_vaddr as usize);
        segment.p_type == libc::PT_LOAD
            && (start..start.saturating_add(segment.p_memsz as usize)).contains(&address)
    };
    c_int::from(segments.iter().any(is_in))
}
