//! Checks transparent huge pages, huge page pools and automatic NUMA balancing.

use std::collections::BTreeMap;
use std::io;

use numapilot_cli_kit::terminal::bytes;
use numapilot_observe::AutoNuma;
use numapilot_place::huge_pages::{self, Choice, Given, Switches};
use numapilot_sys::prctl::{self, ThpSwitch};
use numapilot_topology::{Machine, ReadError};

use super::check::{Check, Files};

pub fn checks(machine: &Result<Machine, ReadError>, files: &Files) -> Vec<Check> {
    // A switch that cannot be read has most likely never been switched off.
    let switch = prctl::thp_switch().unwrap_or(ThpSwitch::Enabled);
    let mut checks = vec![transparent_huge_pages(files, switch, huge_pages::attempt)];
    checks.extend(machine.as_ref().map(huge_page_pools));
    checks.push(numa_balancing(files));
    checks
}

/// The machine's setting, and whether memory that asks for huge pages gets them. `own` is this
/// process's own switch.
fn transparent_huge_pages(
    files: &Files,
    own: ThpSwitch,
    trial: impl FnOnce() -> io::Result<Given>,
) -> Check {
    const NAME: &str = "transparent huge pages";
    let Some(switches) = Switches::read(&files.path("")) else {
        return Check::missing(
            NAME,
            "not in this kernel",
            "/sys/kernel/mm/transparent_hugepage is not there",
            "boot a kernel with CONFIG_TRANSPARENT_HUGEPAGE=y",
        );
    };
    let setting = switches.to_string();
    if switches.most() == Choice::Never && switches.top == Choice::Never {
        return Check::limited(
            NAME,
            setting,
            "switched off machine-wide, also for programs that ask for them",
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        );
    }
    let size = switches.pmd_bytes / 1024;
    if switches.most() == Choice::Never {
        return Check::limited(
            NAME,
            setting,
            format!(
                "pages of {size} kB are switched off by a switch of their own, which the one for \
                 all sizes does not change, and no other size is on"
            ),
            switches.inherit_command(),
        );
    }
    match trial() {
        Ok(given) if given.pmd_bytes > 0 => {
            Check::works(NAME, format!("{setting}; tried: huge pages were given"))
        }
        Ok(given) if switches.pmd() == Choice::Never => Check::limited(
            NAME,
            match given.any() {
                true => format!("{setting}; tried: smaller huge pages were given"),
                false => setting,
            },
            format!(
                "pages of {size} kB are switched off; only smaller huge pages can be given, which \
                 no process shows (AnonHugePages counts the largest size alone)"
            ),
            if switches.top == Choice::Never {
                "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled".to_owned()
            } else {
                switches.inherit_command()
            },
        ),
        Ok(_) if own == ThpSwitch::Disabled => Check::limited(
            NAME,
            setting,
            "this process was started with huge pages switched off \
             (prctl PR_SET_THP_DISABLE), and what it starts has them off as well",
            "start a shell that does not descend from the program that switched them off",
        ),
        Ok(_) => Check::limited(
            NAME,
            setting,
            "tried: memory was asked for and touched, and the kernel gave small pages: memory is \
             fragmented, or a limit of this container is reached",
            "echo 1 | sudo tee /proc/sys/vm/compact_memory",
        ),
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

/// Name of the check of automatic NUMA balancing.
const AUTO_NUMA: &str = "AutoNUMA";

fn numa_balancing(files: &Files) -> Check {
    const SETTING: &str = "proc/sys/kernel/numa_balancing";
    let Some(value) = files.number::<u32>(SETTING) else {
        return Check::missing(
            AUTO_NUMA,
            "not in this kernel",
            "/proc/sys/kernel/numa_balancing is not there",
            "boot a kernel with CONFIG_NUMA_BALANCING=y",
        );
    };
    balancing_of(value, files.writable(SETTING))
}

fn balancing_of(value: u32, writable: bool) -> Check {
    let setting = match value {
        0 => "off",
        1 => "on",
        2 => "memory tiering",
        3 => "on, with memory tiering",
        _ => "unknown setting",
    };
    if writable {
        return Check::works(AUTO_NUMA, format!("{setting}; can be changed"));
    }
    Check::limited(
        AUTO_NUMA,
        setting,
        "the setting is machine-wide and this user may not change it; numapilot run \
         --numa-balancing off keeps the pages of one program where they are without changing it",
        match AutoNuma(value) {
            now if now.is_on() => {
                format!("to switch it off for all programs: {}", now.off().command())
            }
            now => format!("to switch it on: {}", now.on().command()),
        },
    )
}

#[cfg(test)]
mod tests {
    use numapilot_topology::HugePages;

    use super::super::check::State;
    use super::super::check::tests::recorded;
    use super::*;

    const DIRECTORY: &str = "sys/kernel/mm/transparent_hugepage";
    const ON: ThpSwitch = ThpSwitch::Enabled;

    fn given(pmd_bytes: u64, smaller_pages: u64) -> io::Result<Given> {
        Ok(Given { pmd_bytes, smaller_pages })
    }

    /// Makes files with the switches for all sizes, for 2 MiB and for 64 KiB.
    fn switches(top: &str, pmd: &str, small: &str) -> (tempfile::TempDir, Files) {
        let choices =
            |choice| "always inherit madvise never".replace(choice, &format!("[{choice}]"));
        recorded(&[
            (&format!("{DIRECTORY}/enabled"), &choices(top)),
            (&format!("{DIRECTORY}/hugepages-2048kB/enabled"), &choices(pmd)),
            (&format!("{DIRECTORY}/hugepages-64kB/enabled"), &choices(small)),
        ])
    }

    #[test]
    fn huge_pages_must_be_given_not_only_allowed() {
        let (_dir, files) = switches("madvise", "inherit", "never");
        let check = transparent_huge_pages(&files, ON, || given(2 << 20, 0));
        assert_eq!(check.found, "madvise; tried: huge pages were given");
        let check = transparent_huge_pages(&files, ON, || given(0, 0));
        assert_eq!(check.state, State::Limited);
        assert!(check.cause.unwrap().contains("fragmented"));
        let check = transparent_huge_pages(&files, ThpSwitch::Disabled, || given(0, 0));
        assert!(check.cause.unwrap().contains("PR_SET_THP_DISABLE"));
        let (_dir, files) = switches("never", "inherit", "never");
        let check = transparent_huge_pages(&files, ON, || panic!("must not be tried"));
        assert_eq!((check.state, check.found.as_str()), (State::Limited, "never"));
        let (_dir, files) = recorded(&[]);
        assert_eq!(transparent_huge_pages(&files, ON, || given(0, 0)).state, State::Missing);
    }

    #[test]
    fn the_switch_of_a_size_is_blamed_where_it_is_the_reason() {
        let (_dir, files) = switches("always", "never", "never");
        let check = transparent_huge_pages(&files, ON, || panic!("must not be tried"));
        assert_eq!(check.found, "always, but 2048 kB never");
        assert!(check.remedy.unwrap().contains("inherit | sudo tee"));
        // Off for all sizes but on for one: huge pages are given.
        let (_dir, files) = switches("never", "inherit", "always");
        let check = transparent_huge_pages(&files, ON, || given(0, 128));
        assert_eq!(check.found, "never, but 64 kB always; tried: smaller huge pages were given");
        assert!(check.remedy.unwrap().ends_with("transparent_hugepage/enabled"));
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

    #[test]
    fn the_remedy_turns_balancing_the_other_way() {
        for (value, remedy) in [(0, "numa_balancing=1"), (2, "numa_balancing=3"), (1, "=0")] {
            let check = balancing_of(value, false);
            assert!(check.remedy.unwrap().ends_with(remedy), "{value}");
            assert_eq!(balancing_of(value, true).state, State::Works);
        }
    }
}
