//! The meaning of the data source packet of Arm's SPE, which each vendor of cores defines.
//!
//! Sources: Arm Neoverse N2 Core Technical Reference Manual (102099), "Statistical Profiling
//! Extension"; for AmpereOne and HiSilicon's HIP12, the part numbers and values in Linux's
//! tools/perf (`enum arm_spe_ampereone_data_source`, `enum arm_spe_hisi_hip_data_source`).

use std::fs;
use std::path::Path;

use crate::sample::ServedBy;

/// `MIDR_EL1` of the first CPU.
const MIDR: &str = "sys/devices/system/cpu/cpu0/regs/identification/midr_el1";

/// The vendor that defines the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sources {
    /// Arm's own cores, and those of other vendors that are built from them.
    Arm,
    AmpereOne,
    HiSilicon,
    /// An unknown vendor. The data source is derived from events, which are coarser.
    Unknown,
}

impl Sources {
    /// The vendor of the machine whose files are below `root`.
    pub fn find(root: &Path) -> Self {
        let text = fs::read_to_string(root.join(MIDR)).unwrap_or_default();
        let digits = text.trim().trim_start_matches("0x");
        u64::from_str_radix(digits, 16).map_or(Self::Unknown, Self::of)
    }

    /// Derives it from `MIDR_EL1`: the implementer in bits 24 to 31, the part in bits 4 to 15.
    const fn of(midr: u64) -> Self {
        match (midr >> 24 & 0xff, midr >> 4 & 0xfff) {
            // Arm; Microsoft's Cobalt 100.
            (0x41, _) | (0x6d, 0xd49) => Self::Arm,
            (0xc0, 0xac4) => Self::AmpereOne,
            // HIP12.
            (0x48, 0xd06) => Self::HiSilicon,
            _ => Self::Unknown,
        }
    }

    /// The place from which data came, or `None` if the value does not tell.
    pub const fn served_by(self, source: u64) -> Option<ServedBy> {
        use ServedBy::{Dram, OtherCache, OwnCache, SharedCache};
        Some(match (self, source) {
            (Self::Arm, 0x0 | 0x8)
            | (Self::AmpereOne, 0x8 | 0x9)
            | (Self::HiSilicon, 0x10..=0x12) => OwnCache,
            // A core of the same cluster, or another cluster's cache.
            (Self::Arm, 0x9 | 0xa | 0xc)
            | (Self::AmpereOne, 0x0 | 0x5)
            | (Self::HiSilicon, 0x0 | 0x1 | 0x4..=0x7) => OtherCache,
            // The system's cache.
            (Self::Arm, 0xb) | (Self::AmpereOne, 0x3) | (Self::HiSilicon, 0x2 | 0x3) => SharedCache,
            // For another package, Arm's cores do not distinguish memory from a cache; DRAM.
            (Self::Arm, 0xd | 0xe) | (Self::AmpereOne, 0x7) | (Self::HiSilicon, 0x8 | 0x9) => Dram,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makers_are_reported_by_the_first_cpu() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Sources::find(root.path()), Sources::Unknown);
        let path = root.path().join(MIDR);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Neoverse N1 (Altra), Neoverse V1 (Graviton 3), Cobalt 100, AmpereOne A, Kunpeng with
        // HIP12, Kunpeng 920, damaged.
        for (midr, expected) in [
            ("0x00000000413fd0c1\n", Sources::Arm),
            ("0x00000000411fd401\n", Sources::Arm),
            ("0x00000000600fd490\n", Sources::Unknown),
            ("0x000000006d0fd490\n", Sources::Arm),
            ("0x00000000c00fac40\n", Sources::AmpereOne),
            ("0x00000000480fd060\n", Sources::HiSilicon),
            ("0x00000000481fd010\n", Sources::Unknown),
            ("none", Sources::Unknown),
        ] {
            fs::write(&path, midr).unwrap();
            assert_eq!(Sources::find(root.path()), expected, "{midr}");
        }
    }

    #[test]
    fn the_same_value_means_something_else_to_each() {
        use ServedBy::{Dram, OtherCache, OwnCache};
        let of = |source| {
            [Sources::Arm, Sources::AmpereOne, Sources::HiSilicon, Sources::Unknown]
                .map(|maker| maker.served_by(source))
        };
        assert_eq!(of(0x8), [Some(OwnCache), Some(OwnCache), Some(Dram), None]);
        assert_eq!(of(0x7), [None, Some(Dram), Some(OtherCache), None]);
        assert_eq!(of(0xe), [Some(Dram), None, None, None]);
        assert_eq!(of(0x0), [Some(OwnCache), Some(OtherCache), Some(OtherCache), None]);
        assert_eq!(of(0xff), [None; 4]);
    }
}
