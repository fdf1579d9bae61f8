//! The PMU of this machine that samples memory accesses, and its events.
//!
//! Source: the files below `/sys/bus/event_source/devices` (Documentation/ABI/testing/
//! sysfs-bus-event_source-devices-{events,format}): the position of a field in an event's words,
//! and the names of Intel's events.

use std::fs;
use std::path::{Path, PathBuf};

use numapilot_sys::perf::Event;
use numapilot_sys::sampling::{Report, Sampling};

use super::spe_source::Sources;

const DEVICES: &str = "sys/bus/event_source/devices";

/// Instructions for each sample of IBS: about 8,000 samples a second on a CPU that does not wait, a
/// tenth of that on one that waits for memory. If only misses of the last cache are reported, most
/// samples cost nothing.
const IBS_PERIOD: u64 = 1 << 20;
const IBS_MISSES_PERIOD: u64 = 1 << 16;
/// Operations for each sample of SPE, which needs no interrupt for each sample.
const SPE_PERIOD: u64 = 1 << 17;
/// Loads for each sample of PEBS. Only loads with a latency above that of the last cache count.
const PEBS_PERIOD: u64 = 4001;
const PEBS_LATENCY_CYCLES: u64 = 128;

/// A PMU that samples memory accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessPmu {
    /// The name that is shown.
    pub name: &'static str,
    /// The sampled event, and its settings.
    pub sampling: Sampling,
    /// Whether it samples stores.
    pub(super) sees_stores: bool,
    /// For a PMU that writes its own packets ([`super::spe`]) instead of samples: the meaning of
    /// their data sources.
    pub(super) packets: Option<Sources>,
}

impl AccessPmu {
    /// Finds the PMU of the machine whose files are below `root`.
    #[must_use]
    pub fn find(root: &Path) -> Option<Self> {
        ibs(root).or_else(|| spe(root)).or_else(|| pebs(root))
    }
}

fn ibs(root: &Path) -> Option<AccessPmu> {
    let mut pmu = Device::open(root, "ibs_op")?;
    // Counts operations instead of cycles, so the samples are proportional to the operations.
    pmu.set("cnt_ctl", 1);
    let misses = pmu.set("l3missonly", 1);
    let period = if misses { IBS_MISSES_PERIOD } else { IBS_PERIOD };
    Some(AccessPmu {
        name: "AMD IBS",
        sampling: pmu.sampling(period, 0, None),
        sees_stores: true,
        packets: None,
    })
}

fn spe(root: &Path) -> Option<AccessPmu> {
    let mut pmu = Device::open(root, "arm_spe_0")?;
    for field in ["load_filter", "store_filter", "ts_enable", "jitter"] {
        pmu.set(field, 1);
    }
    Some(AccessPmu {
        name: "Arm SPE",
        sampling: pmu.sampling(SPE_PERIOD, 0, None),
        sees_stores: true,
        packets: Some(Sources::find(root)),
    })
}

/// Samples loads only, because PEBS does not report the target of a store.
fn pebs(root: &Path) -> Option<AccessPmu> {
    // On machines with two kinds of cores, `cpu_core` is the PMU of the larger ones.
    ["cpu", "cpu_core"].into_iter().find_map(|name| {
        let mut pmu = Device::open(root, name)?;
        let terms = pmu.text("events/mem-loads")?;
        pmu.set_all(&terms);
        pmu.set("ldlat", PEBS_LATENCY_CYCLES);
        let leader = pmu.text("events/mem-loads-aux").and_then(|terms| {
            let mut leader = Device::open(root, name)?;
            leader.set_all(&terms);
            Some(leader.event)
        });
        Some(AccessPmu {
            name: "Intel PEBS",
            sampling: pmu.sampling(PEBS_PERIOD, 2, leader),
            sees_stores: false,
            packets: None,
        })
    })
}

/// The directory of a PMU, and an event.
struct Device {
    path: PathBuf,
    event: Event,
}

impl Device {
    fn open(root: &Path, name: &str) -> Option<Self> {
        let path = root.join(DEVICES).join(name);
        let pmu = fs::read_to_string(path.join("type")).ok()?.trim().parse().ok()?;
        Some(Self { path, event: Event { pmu, config: 0, config1: 0 } })
    }

    fn text(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.path.join(file)).ok().map(|text| text.trim().to_owned())
    }

    fn sampling(self, period: u64, precise: u8, leader: Option<Event>) -> Sampling {
        Sampling {
            event: self.event,
            period,
            precise,
            report: Report::Data,
            user_only: true,
            leader,
        }
    }

    /// Sets the fields of `event=0xcd,umask=0x1,ldlat=3`.
    fn set_all(&mut self, terms: &str) {
        for (field, value) in terms.split(',').filter_map(|term| term.split_once('=')) {
            let number = match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => value.parse(),
            };
            if let Ok(number) = number {
                self.set(field, number);
            }
        }
    }

    /// Sets a field of the event at the position in its format file (`config1:0-15`). Returns false
    /// if there is no such field.
    fn set(&mut self, field: &str, value: u64) -> bool {
        let Some(format) = self.text(&format!("format/{field}")) else { return false };
        let place = || {
            let (word, bits) = format.split_once(':')?;
            // None of the fields that are set here has several parts.
            let (low, high) = bits.split_once('-').unwrap_or((bits, bits));
            let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
            let width = high.checked_sub(low)? + 1;
            let mask = u64::MAX.checked_shr(64u32.checked_sub(width)?)?;
            (high < 64).then_some((word, low, mask))
        };
        let Some((word, low, mask)) = place() else { return false };
        let word = match word {
            "config" => &mut self.event.config,
            "config1" => &mut self.event.config1,
            _ => return false,
        };
        *word = *word & !(mask << low) | (value & mask) << low;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The PMU that is found in these files: (name below the devices, content).
    fn found(files: &[(&str, &str)]) -> Option<AccessPmu> {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = root.path().join(DEVICES).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{content}\n")).unwrap();
        }
        AccessPmu::find(root.path())
    }

    #[test]
    fn ibs_of_zen_4_reports_misses_only() {
        let files = [
            ("ibs_op/type", "11"),
            ("ibs_op/format/cnt_ctl", "config:19"),
            ("ibs_op/format/l3missonly", "config:16"),
        ];
        let pmu = found(&files).unwrap();
        let event = Event { pmu: 11, config: 1 << 19 | 1 << 16, config1: 0 };
        assert_eq!((pmu.name, pmu.sampling.event), ("AMD IBS", event));
        assert_eq!(pmu.sampling.period, IBS_MISSES_PERIOD);
        let pmu = found(&files[..2]).unwrap();
        assert_eq!((pmu.sampling.event.config, pmu.sampling.period), (1 << 19, IBS_PERIOD));
        // The kernel refuses periods that are not a multiple of 16.
        assert_eq!((IBS_PERIOD % 16, IBS_MISSES_PERIOD % 16), (0, 0));
    }

    #[test]
    fn pebs_leads_with_an_auxiliary_event_where_there_is_one() {
        let sapphire_rapids = [
            ("cpu/type", "4"),
            ("cpu/format/event", "config:0-7"),
            ("cpu/format/umask", "config:8-15"),
            ("cpu/format/ldlat", "config1:0-15"),
            ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
            ("cpu/events/mem-loads-aux", "event=0x03,umask=0x82"),
        ];
        let pmu = found(&sapphire_rapids).unwrap();
        let event = |config, config1| Event { pmu: 4, config, config1 };
        assert_eq!((pmu.name, pmu.sampling.precise), ("Intel PEBS", 2));
        assert!(!pmu.sees_stores);
        assert_eq!(pmu.sampling.event, event(0x1cd, PEBS_LATENCY_CYCLES));
        assert_eq!(pmu.sampling.leader, Some(event(0x8203, 0)));
        assert_eq!(found(&sapphire_rapids[..5]).unwrap().sampling.leader, None);
        // In a virtual machine the PMU lacks the event.
        assert_eq!(found(&sapphire_rapids[..4]), None);
    }

    #[test]
    fn spe_has_filters() {
        let pmu = found(&[
            ("arm_spe_0/type", "9"),
            ("arm_spe_0/format/load_filter", "config:33"),
            ("arm_spe_0/format/store_filter", "config:34"),
            ("arm_spe_0/format/ts_enable", "config:0"),
        ])
        .unwrap();
        assert_eq!((pmu.name, pmu.packets), ("Arm SPE", Some(Sources::Unknown)));
        assert_eq!(pmu.sampling.event.config, 1 << 33 | 1 << 34 | 1);
        assert_eq!(found(&[("arm_spe_0/type", "none")]), None);
    }

    #[test]
    fn damaged_formats_set_nothing() {
        for format in
            ["", "config", "config:", "config:9-3", "config:0-64", "config9:1", "config:x"]
        {
            let files = [("ibs_op/type", "11"), ("ibs_op/format/l3missonly", format)];
            let pmu = found(&files).unwrap();
            assert_eq!(
                (pmu.sampling.event.config, pmu.sampling.period),
                (0, IBS_PERIOD),
                "{format}"
            );
        }
    }
}
