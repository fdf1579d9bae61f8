//! Builds QEMU's command line and the kernel's from the shape of a machine.
//!
//! Source: QEMU's manual page (`-numa`, `-smp`, `-object`), Linux's
//! Documentation/admin-guide/kernel-parameters.txt.

use std::ffi::OsString;
use std::path::PathBuf;

use numapilot_lab_init::{DIRECTORY, PROGRAM};

use crate::Shape;

/// Bandwidths are multiples of this number of bytes per second. The entries of the table have 16
/// bits and share a unit.
const BANDWIDTH_UNIT: u32 = 64 << 20;

/// The host's files and descriptors for the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// QEMU's firmware directories, if QEMU was unpacked and not installed.
    pub firmware: Vec<PathBuf>,
    /// The kernel.
    pub kernel: PathBuf,
    /// The initramfs: the archive of the guest's files.
    pub files: PathBuf,
    /// Descriptor of the serial console.
    pub console: i32,
    /// Descriptor of the serial port that is the doorbell.
    pub doorbell: i32,
    /// Descriptor of the virtual console, for a shell only.
    pub terminal: Option<i32>,
    /// The plugin with its options.
    pub plugin: OsString,
    /// Files of the memory that guest and plugin share, with their sizes in bytes: the mailbox, and
    /// the guest's performance counters.
    pub shared: Vec<(PathBuf, u64)>,
    /// Additions to the kernel's command line.
    pub append: Vec<String>,
    /// Frequency of the time stamp counter, in kHz.
    pub tsc_khz: u64,
    /// Seed of QEMU's random numbers, from which the guest's kernel seeds its own.
    pub seed: u64,
}

/// Kernel parameters that every guest gets. Most skip work at boot that has no effect on a program:
/// `lpj` the calibration of delay loops, which takes seconds per package in emulation; `tsc` and
/// `no_timer_check` the comparison of clocks with each other; `initcall_blacklist` initialisation
/// that takes tens of millions of instructions and that no program needs (random numbers from
/// timing jitter, which this machine does not have, names of trace events, kprobes, error
/// injection).
///
/// `mitigations=off` avoids separate page tables and TLB flushes for the kernel; `no5lvl` keeps
/// page walks at four levels; `intel_iommu=off` leaves the devices' memory accesses untranslated.
/// `nokaslr` and `norandmaps` give every run the same addresses, which determine the lines that
/// share a cache set and the pages that share a huge page. `oops` and `panic` end a guest whose
/// kernel has crashed; otherwise a program might wait for it forever.
const KERNEL: [&str; 18] = [
    "console=ttyS0",
    "quiet",
    "oops=panic",
    "panic=-1",
    "lpj=4000000",
    "tsc=reliable",
    "no_timer_check",
    "mitigations=off",
    "nokaslr",
    "norandmaps",
    "no5lvl",
    "intel_iommu=off",
    "cryptomgr.notests",
    "initcall_blacklist=jent_mod_init,trace_eval_init,init_kprobes,init_error_injection",
    "apparmor=0",
    "audit=0",
    "nowatchdog",
    "rcupdate.rcu_expedited=1",
];

/// The kernel's command line.
#[must_use]
pub fn kernel(append: &[String]) -> String {
    let init = format!("rdinit={DIRECTORY}/{PROGRAM}");
    let all = KERNEL.iter().map(|word| (*word).to_owned()).chain([init]);
    all.chain(append.iter().cloned()).collect::<Vec<_>>().join(" ")
}

/// QEMU's arguments.
#[must_use]
pub fn qemu(shape: &Shape, parts: &Parts) -> Vec<OsString> {
    let mut line = Line::default();
    machine(&mut line, shape);
    nodes(&mut line, shape);
    heterogeneous_memory(&mut line, shape);
    for directory in &parts.firmware {
        line.option("-L", directory);
    }
    line.option("-kernel", &parts.kernel);
    line.option("-initrd", &parts.files);
    let tsc = format!("tsc_early_khz={}", parts.tsc_khz);
    let append: Vec<_> = [tsc].into_iter().chain(parts.append.iter().cloned()).collect();
    line.option("-append", kernel(&append));
    // Every run starts at the same time of day, and with the same random numbers for a seed.
    line.option("-rtc", "base=2024-01-01,clock=vm");
    line.option("-seed", parts.seed.to_string());
    line.option("-chardev", format!("socket,id=console,fd={}", parts.console));
    line.option("-serial", "chardev:console");
    line.option("-chardev", format!("socket,id=doorbell,fd={}", parts.doorbell));
    line.option("-serial", "chardev:doorbell");
    if let Some(fd) = parts.terminal {
        line.option("-device", "virtio-serial-pci");
        line.option("-chardev", format!("socket,id=terminal,fd={fd}"));
        line.option("-device", "virtconsole,chardev=terminal");
    }
    for (index, (file, bytes)) in parts.shared.iter().enumerate() {
        let mut memory = OsString::from(format!(
            "memory-backend-file,id=shared{index},share=on,size={bytes},mem-path="
        ));
        memory.push(escape(file));
        line.option("-object", memory);
        line.option("-device", format!("ivshmem-plain,memdev=shared{index}"));
    }
    line.option("-plugin", &parts.plugin);
    line.0
}

/// Doubles commas, as QEMU requires in a value.
pub(crate) fn escape(path: &std::path::Path) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let bytes = path.as_os_str().as_bytes();
    let twice = bytes.iter().flat_map(|&b| std::iter::repeat_n(b, if b == b',' { 2 } else { 1 }));
    OsString::from_vec(twice.collect())
}

#[derive(Default)]
struct Line(Vec<OsString>);

impl Line {
    fn option(&mut self, name: &str, value: impl Into<OsString>) {
        self.0.extend([name.into(), value.into()]);
    }
}

/// A PC with only the devices that programs use and the clocks that the kernel needs.
fn machine(line: &mut Line, shape: &Shape) {
    for flag in ["-nodefaults", "-no-user-config", "-no-reboot"] {
        line.0.push(flag.into());
    }
    let hmat = if has_hmat(shape) { ",hmat=on" } else { "" };
    let bare = "smbus=off,sata=off,usb=off,vmport=off,hpet=off,pit=off";
    line.option("-display", "none");
    line.option("-machine", format!("q35,{bare}{hmat}"));
    // The IOMMU is needed for interrupt remapping only, without which the kernel does not use
    // x2APIC. With the memory-mapped registers of the older APIC, a CPU occasionally takes an
    // interrupt that the kernel never sees: it stays in service and blocks all later ones.
    line.option("-device", "intel-iommu,intremap=on,eim=on");
    line.option("-accel", "tcg,thread=single");
    // Emulation moves a byte at a time in what these tell the kernel and C libraries to use for
    // everything large. What they use without fills memory two to five times as fast here, and
    // copies it at least as fast.
    line.option("-cpu", "max,erms=off,fsrm=off,fsrs=off,fzrm=off");
    // The nodes of a package are modelled as its dies, which share no cache.
    let dies = shape.nodes_per_package;
    let packages = shape.initiators().count() / dies as usize;
    line.option(
        "-smp",
        format!("{},sockets={packages},dies={dies},cores={}", shape.cpus(), shape.cpus_per_node),
    );
    line.option("-m", format!("{}K", shape.memory_bytes() >> 10));
}

fn nodes(line: &mut Line, shape: &Shape) {
    for (i, node) in shape.nodes.iter().enumerate() {
        let kib = node.memory_bytes >> 10;
        line.option("-object", format!("memory-backend-ram,id=memory{i},size={kib}K"));
        let mut text = format!("node,nodeid={i},memdev=memory{i}");
        match nearest_initiator(shape, i) {
            _ if !node.cpus.is_empty() => {
                text += &format!(",cpus={}-{}", node.cpus.start, node.cpus.end - 1);
            }
            Some(initiator) if has_hmat(shape) => text += &format!(",initiator={initiator}"),
            _ => {}
        }
        line.option("-numa", text);
    }
    for (i, row) in shape.distances.iter().enumerate() {
        for (j, distance) in row.iter().enumerate().filter(|(j, _)| *j != i) {
            line.option("-numa", format!("dist,src={i},dst={j},val={distance}"));
        }
    }
}

/// The node whose CPUs have the lowest latency to the memory of a node.
fn nearest_initiator(shape: &Shape, target: usize) -> Option<usize> {
    shape.initiators().min_by_key(|i| shape.distances.get(*i).and_then(|row| row.get(target)))
}

/// Whether all latencies and bandwidths from CPUs are known: the kernel requires all or none.
fn has_hmat(shape: &Shape) -> bool {
    let full = |matrix: &[Vec<Option<f64>>]| {
        shape.initiators().all(|i| {
            matrix.get(i).is_some_and(|row| {
                row.len() == shape.nodes.len() && row.iter().all(Option::is_some)
            })
        })
    };
    full(&shape.latency_ns) && full(&shape.bandwidth_gb_per_s)
}

/// Latency and bandwidth from every node with CPUs to every memory (ACPI 6.5, 5.2.27).
fn heterogeneous_memory(line: &mut Line, shape: &Shape) {
    if !has_hmat(shape) {
        return;
    }
    for initiator in shape.initiators() {
        for target in 0..shape.nodes.len() {
            let of = |matrix: &[Vec<Option<f64>>]| matrix[initiator][target].unwrap_or_default();
            let at = format!("hmat-lb,initiator={initiator},target={target},hierarchy=memory");
            let nanoseconds = of(&shape.latency_ns).round();
            line.option("-numa", format!("{at},data-type=access-latency,latency={nanoseconds}"));
            let units = (of(&shape.bandwidth_gb_per_s) * 1e9 / f64::from(BANDWIDTH_UNIT)).round();
            let mib = units.max(1.0) * f64::from(BANDWIDTH_UNIT >> 20);
            line.option("-numa", format!("{at},data-type=access-bandwidth,bandwidth={mib}M"));
        }
    }
}

#[cfg(test)]
mod tests {
    use numapilot_topology::description::named;

    use super::*;

    fn words(machine: &str) -> Vec<String> {
        let (name, description) = named(machine).unwrap();
        let shape = Shape::new(&name, &description).unwrap();
        let parts = Parts { shared: vec![("/a,b".into(), 65536)], ..Parts::default() };
        qemu(&shape, &parts).iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn nodes_without_cpus_name_who_reaches_them_first() {
        let all = words("cxl");
        for expected in [
            "4,sockets=1,dies=1,cores=4",
            "node,nodeid=0,memdev=memory0,cpus=0-3",
            "node,nodeid=1,memdev=memory1,initiator=0",
            "dist,src=0,dst=1,val=23",
            "hmat-lb,initiator=0,target=1,hierarchy=memory,data-type=access-latency,latency=250",
            "memory-backend-file,id=shared0,share=on,size=65536,mem-path=/a,,b",
        ] {
            assert!(all.iter().any(|word| word == expected), "{expected} is not in {all:?}");
        }
    }

    #[test]
    fn nodes_of_a_package_are_its_dies() {
        assert!(words("epyc-9004-nps4").contains(&"8,sockets=2,dies=4,cores=1".to_owned()));
    }

    #[test]
    fn the_users_words_come_last() {
        let line = kernel(&["numa_balancing=disable".to_owned()]);
        assert!(line.ends_with("rdinit=/.numapilot/numapilot-lab-init numa_balancing=disable"));
    }

    #[test]
    fn memory_leaves_the_hole_free() {
        let (name, description) = named("machine-a").unwrap();
        let mut shape = Shape::new(&name, &description).unwrap();
        assert_eq!(shape.layout().ranges.len(), 8);
        assert_eq!(shape.layout().ranges[7].start, (7 * 256) << 20);
        shape.nodes.iter_mut().for_each(|node| node.memory_bytes = 3 << 29);
        let ranges = shape.layout().ranges;
        assert_eq!(ranges.iter().map(|r| r.bytes).sum::<u64>(), 12 << 30);
        assert_eq!((ranges[2].node, ranges[2].start), (1, 1 << 32));
        assert!(ranges.iter().all(|r| r.start + r.bytes <= 2 << 30 || r.start >= 4 << 30));
    }
}
