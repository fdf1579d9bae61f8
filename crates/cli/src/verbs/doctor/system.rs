//! Checks the machine and the kernel: version, nodes, cpuset, memory tiers, swap, shared memory.

use std::collections::BTreeMap;

use numapilot_cli_kit::terminal;
use numapilot_place::{Denial, ForeignProc, check_proc};
use numapilot_topology::{CpuSet, Machine, NodeSet, ReadError};

use super::check::{Check, Files};

/// The oldest supported kernel, which introduced `MPOL_PREFERRED_MANY`.
const OLDEST_KERNEL: (u32, u32) = (5, 15);

pub fn checks(machine: &Result<Machine, ReadError>, files: &Files) -> Vec<Check> {
    let mut checks = vec![kernel(files)];
    match machine {
        Ok(machine) => {
            checks.extend([nodes(machine, files), cpuset(machine, Denial::of)]);
            checks.push(memory_tiers(machine, files));
        }
        Err(error) => checks.push(unreadable(error)),
    }
    checks.extend([pid_namespace(check_proc()), swap(files), shared_memory(files)]);
    checks
}

/// The check for a machine whose topology cannot be read. Without it nothing can be placed; the
/// error names the fault in /sys.
fn unreadable(error: &ReadError) -> Check {
    Check::missing(
        "NUMA nodes",
        "cannot be read",
        error.to_string(),
        "mount /sys and /proc (in a container: as its runtime does by default)",
    )
    .essential()
}

/// `major.minor` of `/proc/sys/kernel/osrelease`.
pub fn kernel_version(files: &Files) -> Option<(u32, u32)> {
    let release = files.text("proc/sys/kernel/osrelease")?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn kernel(files: &Files) -> Check {
    let release = files.text("proc/sys/kernel/osrelease").unwrap_or_default();
    match kernel_version(files) {
        Some(version) if version >= OLDEST_KERNEL => Check::works("kernel", release),
        Some(_) => Check::limited(
            "kernel",
            release,
            "kernels before 5.15 have no preferred-many policy and less of AutoNUMA",
            "boot a kernel of 5.15 or later (6.9 or later for weighted interleave)",
        ),
        None => Check::missing(
            "kernel",
            "unknown",
            "/proc/sys/kernel/osrelease cannot be read",
            "mount /proc: mount -t proc proc /proc",
        ),
    }
}

fn nodes(machine: &Machine, files: &Files) -> Check {
    let all = machine.node_ids();
    let mut found = format!("{} ({all})", all.len());
    for (what, set) in [
        ("memory only", all.difference(&machine.cpu_nodes())),
        ("CPUs only", all.difference(&machine.memory_nodes())),
    ] {
        if !set.is_empty() {
            found += &format!("; {what}: {set}");
        }
    }
    if !files.path("sys/devices/system/cpu").is_dir() {
        return Check::limited(
            "NUMA nodes",
            found,
            "sysfs is not mounted: caches, distances, and which CPU is on which node are not known",
            "mount -t sysfs sysfs /sys (in a container: as its runtime does by default)",
        );
    }
    if all.len() > 1 {
        return Check::works("NUMA nodes", found);
    }
    Check::limited(
        "NUMA nodes",
        found,
        "with one node there is nothing to place: only allocator and page size can matter",
        "none needed to tune those two; a guest sees more nodes when its hypervisor shows them \
         (QEMU: -numa node,... per node)",
    )
}

/// CPUs and nodes that this process may use, compared with those of the machine. `why` explains why
/// it may not use some CPUs.
fn cpuset(machine: &Machine, why: impl Fn(&CpuSet) -> Denial) -> Check {
    let allowed = &machine.allowed;
    let found = format!("CPUs {}; memory of nodes {}", allowed.cpus, allowed.nodes);
    let no_cpus = machine.online_cpus().difference(&allowed.cpus);
    let no_memory = machine.memory_nodes().difference(&allowed.nodes);
    let (mut causes, mut remedies) = (Vec::new(), Vec::new());
    for (denial, cpus) in by_denial(&no_cpus, why) {
        causes.push(format!("CPUs {cpus} are {denial}"));
        remedies.push(denial.remedy());
    }
    if !no_memory.is_empty() {
        causes.push(format!("the memory of nodes {no_memory} is outside its cpuset"));
        remedies.push("docker: --cpuset-mems; systemd: AllowedMemoryNodes=");
    }
    if causes.is_empty() {
        return Check::works("cpuset", found);
    }
    remedies.dedup();
    Check::limited("cpuset", found, causes.join("; "), remedies.join("; "))
}

/// Denied CPUs, grouped by reason.
fn by_denial(cpus: &CpuSet, why: impl Fn(&CpuSet) -> Denial) -> Vec<(Denial, CpuSet)> {
    let mut groups: Vec<(Denial, CpuSet)> = Vec::new();
    for cpu in cpus.iter() {
        let one: CpuSet = [cpu].into_iter().collect();
        let denial = why(&one);
        match groups.iter_mut().find(|(known, _)| *known == denial) {
            Some((_, group)) => {
                group.insert(cpu);
            }
            None => groups.push((denial, one)),
        }
    }
    groups
}

/// Whether processes can be inspected by their number.
fn pid_namespace(check: Result<(), ForeignProc>) -> Check {
    tried(
        "/proc",
        check.map_err(|error| format!("{error}; stat, tune, balance and cores refuse to work")),
        ["shows the processes of this PID namespace", "of another PID namespace"],
        "mount -t proc proc /proc (unshare: --mount-proc)",
    )
}

/// The check of a trial: the finding for success or failure, with the error as the cause.
fn tried(name: &str, trial: Result<(), String>, [well, ill]: [&str; 2], remedy: &str) -> Check {
    match trial {
        Ok(()) => Check::works(name, well),
        Err(cause) => Check::missing(name, ill, cause, remedy),
    }
}

/// Memory tiers, and demotion of cold pages from a fast one to a slow one.
fn memory_tiers(machine: &Machine, files: &Files) -> Check {
    const NAME: &str = "memory tiers";
    let mut tiers: BTreeMap<u32, NodeSet> = BTreeMap::new();
    for node in &machine.nodes {
        if let Some(tier) = node.tier {
            tiers.entry(tier).or_default().insert(node.id);
        }
    }
    let text: Vec<String> =
        tiers.iter().map(|(tier, set)| format!("{tier}: nodes {set}")).collect();
    let demotion = files.text("sys/kernel/mm/numa/demotion_enabled");
    match (tiers.len(), demotion.as_deref()) {
        (0, _) => Check::limited(
            NAME,
            "not shown",
            "the kernel shows no memory tiers (they came with 6.1)",
            "needed on machines with CXL or persistent memory only: boot 6.1 or later",
        ),
        (1, _) => Check::works(NAME, "one"),
        (_, Some("true" | "1")) => Check::works(NAME, format!("{}; demotion on", text.join(", "))),
        _ => Check::limited(
            NAME,
            format!("{}; demotion off", text.join(", ")),
            "cold pages stay in the fast tier until it is full",
            "echo 1 | sudo tee /sys/kernel/mm/numa/demotion_enabled",
        ),
    }
}

fn swap(files: &Files) -> Check {
    // The columns are Filename, Type, Size, Used and Priority, in KiB, below one line of headings.
    let text = files.text("proc/swaps").unwrap_or_default();
    let (mut size, mut used) = (0u64, 0u64);
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let [.., kib, used_kib, _priority] = fields[..] {
            size += kib.parse::<u64>().unwrap_or(0) * 1024;
            used += used_kib.parse::<u64>().unwrap_or(0) * 1024;
        }
    }
    if size == 0 {
        return Check::works("swap", "none");
    }
    let found = format!("{} of {} used", terminal::bytes(used), terminal::bytes(size));
    if used == 0 {
        return Check::works("swap", found);
    }
    Check::limited(
        "swap",
        found,
        "pages that were swapped out come back on another node and cost time of their own",
        "sudo swapoff -a && sudo swapon -a, with enough free memory",
    )
}

fn shared_memory(files: &Files) -> Check {
    let trial = numapilot_place::name_prefix("doctor").and_then(|prefix| {
        tempfile::Builder::new().prefix(&prefix).tempfile_in(files.path("dev/shm"))?.close()
    });
    tried(
        "/dev/shm",
        trial.map_err(|error| format!("creating a file failed: {error}")),
        ["a file was created and removed", "not writable"],
        "sudo mount -t tmpfs -o mode=1777 tmpfs /dev/shm; docker: --shm-size",
    )
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::super::check::tests::recorded;
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for (release, state) in [
            ("6.18.44-cloud\n", State::Works),
            ("5.15.0-91-generic", State::Works),
            ("5.4.0", State::Limited),
            ("10.0-rc1", State::Works),
            ("nonsense", State::Missing),
        ] {
            let (_dir, files) = recorded(&[("proc/sys/kernel/osrelease", release)]);
            assert_eq!(kernel(&files).state, state, "{release}");
        }
    }

    #[test]
    fn nodes_without_memory_or_cpus_are_named() {
        let mut machine = Machine::uniform(4, 2);
        machine.nodes[2].cpus = CpuSet::new();
        machine.nodes[3].memory_bytes = 0;
        let (_dir, files) = recorded(&[("sys/devices/system/cpu/online", "0-7")]);
        let check = nodes(&machine, &files);
        assert_eq!(check.state, State::Works);
        assert_eq!(check.found, "4 (0-3); memory only: 2; CPUs only: 3");
        assert_eq!(nodes(&Machine::uniform(1, 2), &files).state, State::Limited);
        let (_dir, files) = recorded(&[]);
        assert!(nodes(&machine, &files).cause.unwrap().contains("sysfs is not mounted"));
    }

    #[test]
    fn a_machine_that_cannot_be_read_is_essential() {
        let (dir, files) = recorded(&[]);
        let checks = checks(&numapilot_topology::read(dir.path()), &files);
        let check = checks.iter().find(|check| check.name == "NUMA nodes").unwrap();
        assert!(check.essential && check.state == State::Missing, "{check:?}");
    }

    #[test]
    fn what_a_cpuset_denies_is_named() {
        let mut machine = Machine::uniform(2, 4);
        let of_cpuset = |_: &CpuSet| Denial::Cpuset;
        assert_eq!(cpuset(&machine, of_cpuset).state, State::Works);
        machine.allowed.cpus = CpuSet::parse_list("0-3").unwrap();
        machine.allowed.nodes = NodeSet::parse_list("0").unwrap();
        let check = cpuset(&machine, of_cpuset);
        assert_eq!(check.state, State::Limited);
        let cause = check.cause.unwrap();
        assert!(cause.starts_with("CPUs 4-7 are outside the cpuset of this process"), "{cause}");
        assert!(cause.ends_with("the memory of nodes 1 is outside its cpuset"), "{cause}");
        // Isolated CPUs are not due to a cpuset.
        let mixed = |cpus: &CpuSet| match cpus.contains(numapilot_topology::CpuId(5)) {
            true => Denial::Isolated,
            false => Denial::Cpuset,
        };
        let check = cpuset(&machine, mixed);
        let cause = check.cause.unwrap();
        assert!(cause.contains("CPUs 4,6-7 are outside") && cause.contains("CPUs 5 are isolated"));
        assert!(check.remedy.unwrap().contains("run -a (--all)"));
    }

    #[test]
    fn tiers_need_demotion() {
        let mut machine = Machine::uniform(3, 1);
        let with = |machine: &Machine, demotion| {
            let (_dir, files) = recorded(&[("sys/kernel/mm/numa/demotion_enabled", demotion)]);
            memory_tiers(machine, &files)
        };
        assert_eq!(with(&machine, "true").found, "not shown");
        for (node, tier) in machine.nodes.iter_mut().zip([4, 4, 22]) {
            node.tier = Some(tier);
        }
        assert_eq!(with(&machine, "true").found, "4: nodes 0-1, 22: nodes 2; demotion on");
        assert_eq!(with(&machine, "false\n").state, State::Limited);
        machine.nodes.pop();
        assert_eq!(with(&machine, "false").state, State::Works);
    }

    #[test]
    fn used_swap_is_a_limit() {
        let head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        let with = |line: &str| {
            let (_dir, files) = recorded(&[("proc/swaps", &format!("{head}{line}"))]);
            swap(&files)
        };
        assert_eq!(with("").found, "none");
        assert_eq!(with("/dev/vda2 partition\t8388604\t0\t-2\n").state, State::Works);
        let check = with("/swap file\t1048576\t524288\t-2\n");
        assert_eq!(
            (check.state, check.found.as_str()),
            (State::Limited, "512 MiB of 1.00 GiB used")
        );
    }

    #[test]
    fn shared_memory_that_is_not_there_is_missing() {
        let (_dir, files) = recorded(&[("dev/shm/x", "")]);
        assert_eq!(shared_memory(&files).state, State::Works);
        assert_eq!(files.names("dev/shm"), ["x"]);
        let (_dir, files) = recorded(&[]);
        assert_eq!(shared_memory(&files).state, State::Missing);
    }
}
