//! The PMU of an emulated machine, as seen by a program in it.
//!
//! `numapilot lab` gives its guests a PCI device whose BAR 2 is shared memory (`ivshmem-plain`,
//! 1af4:1110; the layout is in `numapilot-lab-pmu`). Root can map it through sysfs
//! (Documentation/PCI/sysfs-pci.rst). It counts the whole guest with its kernel, not one process.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

pub use numapilot_lab_pmu::{MarkKind, NAME_BYTES, WHOLE_NAME};
use numapilot_lab_pmu::{PCI_DEVICE, PCI_VENDOR, Pmu, PmuError, Scalar, Snapshot, Vector};
use numapilot_sys::mark;
use numapilot_sys::shared::SharedWords;
use thiserror::Error;

use crate::metric::{Figures, Metric};

mod sampler;

pub use sampler::LabSampler;

const DEVICES: &str = "/sys/bus/pci/devices";

/// Why a lab's PMU cannot be used although the device exists.
#[derive(Debug, Error)]
pub enum LabError {
    /// Only root may map it.
    #[error("the lab's PMU {} cannot be opened: {cause}; run as root", path.display())]
    Closed {
        /// The file of its memory.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// There is no room for another sampler.
    #[error("too many programs sample with the lab's PMU; end one of them")]
    Busy,
    /// The identity of this process cannot be read from /proc.
    #[error("the identity of this process cannot be read from /proc: {0}; mount it")]
    NoProcess(io::Error),
    /// It has another version, or it is damaged.
    #[error(transparent)]
    Unknown(#[from] PmuError),
}

/// The PMU of the lab in which this program runs.
#[derive(Debug)]
pub struct LabPmu {
    pmu: Pmu<SharedWords>,
    path: PathBuf,
}

impl LabPmu {
    /// Finds the PMU. Returns `None` outside a lab.
    ///
    /// # Errors
    /// [`LabError`] if there is one that cannot be used.
    pub fn find() -> Result<Option<Self>, LabError> {
        let devices = fs::read_dir(DEVICES).into_iter().flatten().flatten();
        for device in devices.map(|entry| entry.path()).filter(|path| is_shared_memory(path)) {
            let path = device.join("resource2");
            let closed = |cause| LabError::Closed { path: path.clone(), cause };
            enable(&device).map_err(closed)?;
            let file = File::options().read(true).write(true).open(&path).map_err(closed)?;
            match Pmu::open(SharedWords::map(&file).map_err(closed)?) {
                // Another program's shared memory.
                Err(PmuError::OtherMemory) => {}
                pmu => return Ok(Some(Self { pmu: pmu?, path })),
            }
        }
        Ok(None)
    }

    /// The file of its memory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The memory itself.
    #[must_use]
    pub fn pmu(&self) -> &Pmu<SharedWords> {
        &self.pmu
    }

    /// Simulated time since the machine started.
    #[must_use]
    pub fn time_ns(&self) -> u64 {
        self.pmu.time_ns()
    }

    /// Begins or ends a region of interest of this name in the lab's report.
    ///
    /// # Errors
    /// If the PMU's file cannot be locked. The lock protects the name of the next mark.
    pub fn mark(&self, kind: MarkKind, name: &str) -> io::Result<()> {
        let file = File::open(&self.path)?;
        file.lock()?;
        self.pmu.set_mark_name(name);
        match kind {
            MarkKind::Begin => mark::begin_named(),
            MarkKind::End => mark::end_named(),
        }
        Ok(())
    }

    /// Reads all counters.
    #[must_use]
    pub fn counters(&self) -> LabCounters {
        LabCounters { time_ns: self.time_ns(), counted: Snapshot::take(&self.pmu) }
    }

    /// Starts sampling one of `period` accesses that miss the first level of cache.
    ///
    /// # Errors
    /// [`LabError::Busy`] if too many programs sample.
    pub fn sample(self, period: u64) -> Result<LabSampler, LabError> {
        LabSampler::begin(self, period)
    }
}

fn is_shared_memory(device: &Path) -> bool {
    let is = |file: &str, id: u16| {
        let text = fs::read_to_string(device.join(file)).unwrap_or_default();
        text.trim().strip_prefix("0x").and_then(|hex| u16::from_str_radix(hex, 16).ok()) == Some(id)
    };
    is("vendor", PCI_VENDOR) && is("device", PCI_DEVICE)
}

/// Enables the device, unless it is enabled.
fn enable(device: &Path) -> io::Result<()> {
    let path = device.join("enable");
    if fs::read_to_string(&path).is_ok_and(|text| text.trim() != "0") {
        return Ok(());
    }
    fs::write(&path, "1")
}

/// The counters of a lab at one moment.
#[derive(Clone, Debug)]
pub struct LabCounters {
    time_ns: u64,
    counted: Snapshot,
}

impl LabCounters {
    /// The [`Metric`]s that are counters, as of now.
    pub(crate) fn figures(&self) -> Figures {
        let sum = |scalar| self.counted.sum(scalar) as f64;
        let (local, remote) = self.counted.local_remote();
        Figures::from([
            (Metric::SimulatedSeconds, Ok(self.time_ns as f64 * 1e-9)),
            (Metric::Cycles, Ok(self.counted.cycles().round())),
            (Metric::Instructions, Ok(sum(Scalar::Instructions))),
            (Metric::CacheReferences, Ok(sum(Scalar::LastReferences))),
            (Metric::CacheMisses, Ok(sum(Scalar::LastMisses))),
            (Metric::DtlbMisses, Ok(sum(Scalar::Tlb4kMisses) + sum(Scalar::Tlb2mMisses))),
            (Metric::HugeDtlbMisses, Ok(sum(Scalar::Tlb2mMisses))),
            (Metric::LocalAccesses, Ok(local as f64)),
            (Metric::RemoteAccesses, Ok(remote as f64)),
        ])
    }

    /// The counts since an earlier moment.
    #[must_use]
    pub fn counted_since(&self, earlier: &Self) -> Snapshot {
        self.counted.since(&earlier.counted)
    }

    /// Cache lines that were transferred between each node (row) and the memory of each node
    /// (column) since an earlier moment, including write-backs.
    #[must_use]
    pub fn traffic_since(&self, earlier: &Self) -> Vec<Vec<f64>> {
        let counted = self.counted_since(earlier);
        let mut lines = counted.dram_accesses();
        let written_back = counted.by_node(Vector::Writebacks);
        let pairs = lines.iter_mut().flatten().zip(written_back.iter().flatten());
        pairs.for_each(|(lines, more)| *lines += more);
        lines.into_iter().map(|row| row.into_iter().map(|lines| lines as f64).collect()).collect()
    }

    /// Simulated time since an earlier moment.
    #[must_use]
    pub fn seconds_since(&self, earlier: &Self) -> f64 {
        self.time_ns.saturating_sub(earlier.time_ns) as f64 * 1e-9
    }

    /// The figures that are derived from the counts since an earlier moment.
    pub(crate) fn derived_since(&self, earlier: &Self) -> Figures {
        let seconds = self.seconds_since(earlier);
        let counted = self.counted_since(earlier);
        let (local, remote) = counted.local_remote();
        let no_access = || "no DRAM access was counted".to_owned();
        let no_time = || "no simulated time has passed: the guest was idle".to_owned();
        let timed = |figure: Option<f64>| figure.filter(|_| seconds > 0.0).ok_or_else(no_time);
        let links = match counted.links() {
            [] => Err("this machine has no links between nodes".to_owned()),
            _ => timed(counted.mean_link_usage(seconds)),
        };
        Figures::from([
            (Metric::Maptu, timed(Some((local + remote) as f64 / (seconds * 1e6)))),
            (Metric::ControllerImbalance, counted.controller_imbalance().ok_or_else(no_access)),
            (Metric::LinkUsage, links),
            (
                Metric::DramLatencySeconds,
                counted.mean_latency_ns().map(|ns| ns * 1e-9).ok_or_else(no_access),
            ),
        ])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use numapilot_lab_pmu::{Link, Mode, Shape};

    use super::*;

    #[test]
    fn only_the_right_device_is_looked_at() {
        let device = std::env::temp_dir().join(format!("lab-device-{}", std::process::id()));
        fs::create_dir_all(&device).unwrap();
        for (vendor, id, expected) in
            [("0x1af4", "0x1110", true), ("0x1af4", "0x1000", false), ("", "junk", false)]
        {
            fs::write(device.join("vendor"), format!("{vendor}\n")).unwrap();
            fs::write(device.join("device"), format!("{id}\n")).unwrap();
            assert_eq!(is_shared_memory(&device), expected, "{vendor} {id}");
        }
        fs::remove_dir_all(&device).unwrap();
    }

    #[test]
    fn figures_follow_from_the_counters_between_two_moments() {
        let shape = Shape::new(2, 2, 1).unwrap();
        let memory: Vec<AtomicU64> = (0..shape.words()).map(|_| AtomicU64::new(0)).collect();
        let link = Link { from: 0, to: 1, bytes_per_second: 64_000_000_000 };
        let rates = [64_000_000_000; 2];
        let pmu = Pmu::create(memory, shape, &[0, 1], &rates, &[link], 500.0).unwrap();
        let now = || LabCounters { time_ns: pmu.time_ns(), counted: Snapshot::take(&pmu) };
        let before = now();
        let none = now().derived_since(&before);
        assert!(none.values().all(Result::is_err), "{none:?}");
        let cpu = pmu.counters(0, Mode::User).unwrap();
        cpu.add_at(Vector::DramReads, 0, 3000);
        cpu.add_at(Vector::DramReads, 1, 1000);
        cpu.add_at(Vector::LinkLines, 1, 1000);
        cpu.add(Scalar::DramLatencyPs, 4000 * 120_000);
        pmu.advance_time(10_000);
        let seen = now().derived_since(&before);
        let close = |metric, expected: f64| {
            let value = *seen[&metric].as_ref().unwrap();
            assert!((value - expected).abs() < 1e-9, "{metric}: {value}");
        };
        close(Metric::Maptu, 400.0);
        close(Metric::ControllerImbalance, 0.5);
        close(Metric::LinkUsage, 0.05);
        close(Metric::DramLatencySeconds, 120e-9);
        assert_eq!(now().figures()[&Metric::LocalAccesses], Ok(3000.0));
        cpu.add_at(Vector::Writebacks, 1, 500);
        assert_eq!(now().traffic_since(&before), [[3000.0, 1500.0], [0.0, 0.0]]);
    }
}
