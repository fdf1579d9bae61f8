//! The memory that is available on this machine.

use procfs::{Current, Meminfo, ProcResult};

/// The memory in bytes that the kernel can provide without swapping, by its own estimate
/// (`MemAvailable` in proc_meminfo(5)).
///
/// # Errors
/// When `/proc/meminfo` cannot be read.
pub fn available_bytes() -> ProcResult<u64> {
    let meminfo = Meminfo::current()?;
    Ok(meminfo.mem_available.unwrap_or(meminfo.mem_free))
}
