//! Pools of preallocated huge pages.
//!
//! Source: Documentation/admin-guide/mm/hugetlbpage.rst (`hugepages-SIZEkB/nr_hugepages`,
//! `free_hugepages`).

use super::ReadError;
use super::tree::{Dir, parse};
use crate::HugePages;

/// The pools under `path`, smallest page first; none when the kernel has none.
pub(super) fn read(dir: &Dir, path: &str) -> Result<Vec<HugePages>, ReadError> {
    let Some(dir) = dir.dir(path)? else { return Ok(Vec::new()) };
    let mut pools = Vec::new();
    for name in dir.names()? {
        let kilobytes = name.strip_prefix("hugepages-").and_then(|n| n.strip_suffix("kB"));
        let bytes = kilobytes.and_then(parse::number::<u64>).and_then(|kb| kb.checked_mul(1024));
        let Some(page_bytes) = bytes else { continue };
        let count = |file| dir.need(&format!("{name}/{file}"), parse::NUMBER, parse::number::<u64>);
        pools.push(HugePages {
            page_bytes,
            total: count("nr_hugepages")?,
            free: count("free_hugepages")?,
        });
    }
    pools.sort_unstable_by_key(|pool| pool.page_bytes);
    Ok(pools)
}
