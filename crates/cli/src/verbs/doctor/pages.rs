//! Pages: transparent huge pages, huge page pools, automatic NUMA balancing.

use std::collections::BTreeMap;
use std::io;

use numapilot_sys::mapping::Mapping;
use numapilot_topology::{Machine, ReadError};

use super::check::{Check, Files, chosen};
use crate::terminal::bytes;

pub fn checks(machine: &Result<Machine, ReadError>, files: &Files) -> Vec<Check> {
    let mut checks = vec![transparent_huge_pages(files, huge_page_trial)];
    checks.extend(machine.as_ref().map(huge_page_pools));
    checks.push(numa_balancing(files));
    checks
}

/// Asks for huge pages with madvise(2), touches the memory, and looks in smaps whether
/// there are any. Returns the bytes in huge pages.
fn huge_page_trial() -> io::Result<u64> {
    const BYTES: usize = 8 << 20;
    let mut memory = Mapping::anonymous(BYTES)?;
    memory.advise(libc::MADV_HUGEPAGE)?;
    for byte in memory.as_mut_slice().iter_mut().step_by(4096) {
        *byte = 1;
    }
    Ok(memory.residency()?.huge_bytes)
}

fn transparent_huge_pages(files: &Files, trial: impl FnOnce() -> io::Result<u64>) -> Check {
    const NAME: &str = "transparent huge pages";
    let Some(enabled) = files.text("sys/kernel/mm/transparent_hugepage/enabled") else {
        return Check::missing(
            NAME,
            "not in this kernel",
            "/sys/kernel/mm/transparent_hugepage is not there",
            "boot a kernel with CONFIG_TRANSPARENT_HUGEPAGE=y",
        );
    };
    let setting = chosen(&enabled).unwrap_or("unknown");
    if setting == "never" {
        return Check::limited(
            NAME,
            "never",
            "switched off machine-wide, also for programs that ask for them",
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        );
    }
    match trial() {
        Ok(0) => Check::limited(
            NAME,
            setting,
            "tried: memory was asked for and touched, and the kernel gave small pages \
             (fragmentation, or this process has them switched off)",
            "echo 1 | sudo tee /proc/sys/vm/compact_memory; in a shell under prctl, start a new one",
        ),
        Ok(_) => Check::works(NAME, format!("{setting}; tried: huge pages were given")),
        Err(error) => Check::limited(
            NAME,
            setting,
            format!("tried: asking for them failed: {error}"),
            "free some memory, or boot a kernel with CONFIG_TRANSPARENT_HUGEPAGE=y",
        ),
    }
}

/// Preallocated pools (HugeTLB), which glibc and some databases use.
fn huge_page_pools(machine: &Machine) -> Check {
    const NAME: &str = "huge page pools";
    let mut pools: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for pool in machine.nodes.iter().flat_map(|node| &node.huge_pages) {
        let (free, total) = pools.entry(pool.page_bytes).or_default();
        *free += pool.free;
        *total += pool.total;
    }
    if pools.is_empty() {
        return Check::missing(
            NAME,
            "not in this kernel",
            "no node has a hugepages directory in /sys",
            "boot a kernel with CONFIG_HUGETLBFS=y",
        );
    }
    if pools.values().any(|(_, total)| *total > 0) {
        let text: Vec<String> = pools
            .iter()
            .map(|(size, (free, total))| format!("{}: {free} of {total} free", bytes(*size)))
            .collect();
        return Check::works(NAME, text.join(", "));
    }
    Check::limited(
        NAME,
        "empty",
        "no pages are set aside; only programs that use MAP_HUGETLB need them",
        "echo 512 | sudo tee /proc/sys/vm/nr_hugepages (1 GiB in pages of 2 MiB)",
    )
}

fn numa_balancing(files: &Files) -> Check {
    const NAME: &str = "AutoNUMA";
    const SETTING: &str = "proc/sys/kernel/numa_balancing";
    let Some(value) = files.number::<u32>(SETTING) else {
        return Check::missing(
            NAME,
            "not in this kernel",
            "/proc/sys/kernel/numa_balancing is not there",
            "boot a kernel with CONFIG_NUMA_BALANCING=y",
        );
    };
    let setting = match value {
        0 => "off",
        1 => "on",
        2 => "memory tiering",
        3 => "on, with memory tiering",
        _ => "unknown setting",
    };
    if files.writable(SETTING) {
        return Check::works(NAME, format!("{setting}; can be changed"));
    }
    Check::limited(
        NAME,
        setting,
        "the setting is machine-wide and this user may not change it; off for one program works \
         without",
        "run numapilot as root, or: sudo sysctl kernel.numa_balancing=0",
    )
}

#[cfg(test)]
mod tests {
    use numapilot_topology::HugePages;

    use super::super::check::State;
    use super::super::check::tests::recorded;
    use super::*;

    const ENABLED: &str = "sys/kernel/mm/transparent_hugepage/enabled";

    #[test]
    fn huge_pages_must_be_given_not_only_allowed() {
        let (_dir, files) = recorded(&[(ENABLED, "always [madvise] never\n")]);
        let check = transparent_huge_pages(&files, || Ok(2 << 20));
        assert_eq!(check.found, "madvise; tried: huge pages were given");
        assert_eq!(transparent_huge_pages(&files, || Ok(0)).state, State::Limited);
        let (_dir, files) = recorded(&[(ENABLED, "always madvise [never]\n")]);
        let check = transparent_huge_pages(&files, || panic!("must not be tried"));
        assert_eq!(check.state, State::Limited);
        let (_dir, files) = recorded(&[]);
        assert_eq!(transparent_huge_pages(&files, || Ok(0)).state, State::Missing);
    }

    #[test]
    fn pools_are_summed_over_nodes() {
        let mut machine = Machine::uniform(2, 1);
        assert_eq!(huge_page_pools(&machine).state, State::Missing);
        let pool = |total, free| HugePages { page_bytes: 2 << 20, total, free };
        for node in &mut machine.nodes {
            node.huge_pages = vec![pool(0, 0)];
        }
        assert_eq!(huge_page_pools(&machine).state, State::Limited);
        for node in &mut machine.nodes {
            node.huge_pages = vec![pool(256, 250)];
        }
        assert_eq!(huge_page_pools(&machine).found, "2.00 MiB: 500 of 512 free");
    }

    #[test]
    fn balancing_has_four_settings() {
        for (value, found) in [
            ("0", "off; can be changed"),
            ("1", "on; can be changed"),
            ("2", "memory tiering; can be changed"),
        ] {
            let (_dir, files) = recorded(&[("proc/sys/kernel/numa_balancing", value)]);
            assert_eq!(numa_balancing(&files).found, found);
        }
        let (_dir, files) = recorded(&[]);
        assert_eq!(numa_balancing(&files).state, State::Missing);
    }
}
