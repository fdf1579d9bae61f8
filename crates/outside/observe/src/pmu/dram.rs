//! The events that count accesses to local and remote DRAM, by processor.
//!
//! A processor counts either local and remote accesses, or one of them and the sum, as the table
//! states. The definition of an access differs too (retired loads only, or also prefetches and
//! writes), so figures are comparable on one machine but not between machines. [`Model::counts`]
//! describes it.

use numapilot_sys::perf::Event;

use super::processor::Processor;

/// An event of the core PMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DramEvent {
    /// The vendor's name.
    pub name: &'static str,
    /// Event select and unit mask in the PMU's raw format.
    config: u64,
    /// Offcore response mask, if the event has one.
    config1: u64,
}

impl DramEvent {
    /// The event for `perf_event_open`.
    #[must_use]
    pub fn event(&self) -> Event {
        Event::raw(self.config, self.config1)
    }
}

/// How local and remote accesses are computed from the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Local and remote accesses are counted. Several events are added up.
    LocalRemote(&'static [DramEvent], &'static [DramEvent]),
    /// Local accesses and all accesses are counted.
    LocalTotal(DramEvent, DramEvent),
    /// Remote accesses and all accesses are counted.
    RemoteTotal(DramEvent, DramEvent),
}

/// The DRAM events of one processor model.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Its name.
    pub name: &'static str,
    /// Whether a processor is of this model.
    matches: fn(Processor) -> bool,
    /// The events.
    pub split: Split,
    /// Description of an access.
    pub counts: &'static str,
    /// The source of the entry.
    pub source: &'static str,
}

impl Model {
    /// The entry for a processor.
    #[must_use]
    pub fn of(processor: Processor) -> Option<&'static Self> {
        MODELS.iter().find(|m| (m.matches)(processor))
    }

    /// All events, those of the first part first.
    pub fn events(&self) -> impl Iterator<Item = DramEvent> {
        let (first, second) = match &self.split {
            Split::LocalRemote(local, remote) => (*local, *remote),
            Split::LocalTotal(a, b) | Split::RemoteTotal(a, b) => {
                (std::slice::from_ref(a), std::slice::from_ref(b))
            }
        };
        first.iter().chain(second).copied()
    }

    /// Local and remote accesses from the counts of [`Model::events`], in that order.
    #[must_use]
    pub fn local_remote(&self, counts: &[f64]) -> Option<(f64, f64)> {
        if counts.len() != self.events().count() {
            return None;
        }
        Some(match self.split {
            Split::LocalRemote(local, _) => {
                let (local, remote) = counts.split_at(local.len());
                (local.iter().sum(), remote.iter().sum())
            }
            // Each count is extrapolated separately, so a part may slightly exceed the whole.
            Split::LocalTotal(..) => (counts[0], (counts[1] - counts[0]).max(0.0)),
            Split::RemoteTotal(..) => ((counts[1] - counts[0]).max(0.0), counts[0]),
        })
    }
}

/// `event` and `umask` in x86's raw format. AMD's event numbers above 8 bits do not occur.
const fn x86(name: &'static str, event: u64, umask: u64) -> DramEvent {
    DramEvent { name, config: event | umask << 8, config1: 0 }
}

/// Intel's offcore response: `event` with umask 1 and a mask of requests and responses.
const fn offcore(name: &'static str, event: u64, mask: u64) -> DramEvent {
    DramEvent { name, config: event | 1 << 8, config1: mask }
}

/// Arm's event numbers are the raw format.
const fn arm(name: &'static str, event: u64) -> DramEvent {
    DramEvent { name, config: event, config1: 0 }
}

fn intel(p: Processor, models: &[u32]) -> bool {
    matches!(p, Processor::Intel { family: 6, model, .. } if models.contains(&model))
}

fn neoverse(p: Processor, parts: &[u32]) -> bool {
    matches!(p, Processor::Arm { implementer: 0x41, part } if parts.contains(&part))
}

/// Fills of the L1 data cache for any request, from Zen 3 on.
const ANY_FILLS: Split = Split::LocalRemote(
    &[x86("ls_any_fills_from_sys.mem_io_local", 0x44, 0x08)],
    &[x86("ls_any_fills_from_sys.mem_io_remote", 0x44, 0x40)],
);

/// From Zen 4 on there is also memory outside the DRAM channels (CXL), on nodes without CPUs.
const ANY_FILLS_AND_CXL: Split = Split::LocalRemote(
    &[x86("ls_any_fills_from_sys.dram_io_near", 0x44, 0x08)],
    &[x86("ls_any_fills_from_sys.dram_io_far + alternate_memories", 0x44, 0xc0)],
);

const RETIRED_LOADS: &str = "retired loads that missed the last cache";
const READS: &str = "reads into the core, prefetches and reads for ownership included";
const FILLS: &str = "fills of the L1 data cache, prefetches included";
const NEOVERSE: &str = "reads that missed the last cache; remote is another socket, so nodes of \
                        one socket count as local";

/// All known processors. More specific entries come first.
const MODELS: &[Model] = &[
    Model {
        name: "Zen 6",
        matches: |p| matches!(p, Processor::Amd { family: 0x1a, model: 0x50..=0x5f | 0x80..=0xaf | 0xc0..=0xcf }),
        split: ANY_FILLS_AND_CXL,
        counts: FILLS,
        source: "Linux tools/perf/pmu-events/arch/x86/amdzen6/load-store.json",
    },
    Model {
        name: "Zen 5",
        matches: |p| matches!(p, Processor::Amd { family: 0x1a, .. }),
        split: ANY_FILLS_AND_CXL,
        counts: FILLS,
        source: "Linux tools/perf/pmu-events/arch/x86/amdzen5/load-store.json",
    },
    Model {
        name: "Zen 3",
        matches: |p| matches!(p, Processor::Amd { family: 0x19, model: 0x00..=0x0f | 0x20..=0x2f | 0x40..=0x5f }),
        split: ANY_FILLS,
        counts: FILLS,
        source: "Linux tools/perf/pmu-events/arch/x86/amdzen3/memory.json",
    },
    Model {
        name: "Zen 4",
        matches: |p| matches!(p, Processor::Amd { family: 0x19, .. }),
        split: ANY_FILLS_AND_CXL,
        counts: FILLS,
        source: "Linux tools/perf/pmu-events/arch/x86/amdzen4/cache.json",
    },
    Model {
        name: "Zen 2",
        matches: |p| matches!(p, Processor::Amd { family: 0x17, model: 0x30.. }),
        split: Split::LocalRemote(
            &[
                x86("ls_refills_from_sys.ls_mabresp_lcl_dram", 0x43, 0x08),
                x86("ls_hw_pf_dc_fill.ls_mabresp_lcl_dram", 0x5a, 0x08),
            ],
            &[
                x86("ls_refills_from_sys.ls_mabresp_rmt_dram", 0x43, 0x40),
                x86("ls_hw_pf_dc_fill.ls_mabresp_rmt_dram", 0x5a, 0x40),
            ],
        ),
        counts: "demand and hardware prefetch fills of the L1 data cache",
        source: "Linux tools/perf/pmu-events/arch/x86/amdzen2/memory.json",
    },
    Model {
        name: "Opteron, family 10h",
        matches: |p| matches!(p, Processor::Amd { family: 0x10, .. }),
        split: Split::RemoteTotal(
            x86("CPU request to memory, remote", 0xe9, 0x98),
            x86("CPU request to memory, local and remote", 0xe9, 0xb8),
        ),
        counts: "requests of a node's CPUs to memory; counted by the northbridge for all CPUs of \
                 the node",
        source: "Linux arch/x86/events/amd/core.c, amd_hw_cache_event_ids, C(NODE)",
    },
    Model {
        name: "Granite Rapids",
        matches: |p| intel(p, &[0xad, 0xae]),
        split: READS_TO_CORE_2A,
        counts: READS,
        source: "intel/perfmon GNR/events/graniterapids_core.json",
    },
    Model {
        name: "Emerald Rapids",
        matches: |p| intel(p, &[0xcf]),
        split: READS_TO_CORE_2A,
        counts: READS,
        source: "intel/perfmon EMR/events/emeraldrapids_core.json",
    },
    Model {
        name: "Sapphire Rapids",
        matches: |p| intel(p, &[0x8f]),
        split: READS_TO_CORE_2A,
        counts: READS,
        source: "intel/perfmon SPR/events/sapphirerapids_core.json",
    },
    Model {
        name: "Sierra Forest",
        matches: |p| intel(p, &[0xaf]),
        split: Split::LocalRemote(
            &[x86("MEM_LOAD_UOPS_L3_MISS_RETIRED.LOCAL_DRAM", 0xd3, 0x01)],
            &[x86("MEM_LOAD_UOPS_L3_MISS_RETIRED.REMOTE_DRAM_OR_NOFWD", 0xd3, 0x02)],
        ),
        counts: RETIRED_LOADS,
        source: "intel/perfmon SRF/events/sierraforest_core.json",
    },
    Model {
        name: "Ice Lake-SP",
        matches: |p| intel(p, &[0x6a, 0x6c]),
        split: Split::LocalTotal(
            offcore("OCR.READS_TO_CORE.LOCAL_DRAM", 0xb7, 0x1_0400_0477),
            offcore("OCR.READS_TO_CORE.DRAM", 0xb7, 0x7_3c00_0477),
        ),
        counts: READS,
        source: "intel/perfmon ICX/events/icelakex_core.json",
    },
    Model {
        name: "Cascade Lake-SP",
        matches: |p| matches!(p, Processor::Intel { family: 6, model: 0x55, stepping: 5.. }),
        split: Split::LocalRemote(
            &[x86("MEM_LOAD_L3_MISS_RETIRED.LOCAL_DRAM", 0xd3, 0x01)],
            &[x86("MEM_LOAD_L3_MISS_RETIRED.REMOTE_DRAM", 0xd3, 0x02)],
        ),
        counts: RETIRED_LOADS,
        source: "intel/perfmon CLX/events/cascadelakex_core.json",
    },
    Model {
        name: "Skylake-SP",
        matches: |p| intel(p, &[0x55]),
        split: Split::LocalRemote(
            &[x86("MEM_LOAD_L3_MISS_RETIRED.LOCAL_DRAM", 0xd3, 0x01)],
            &[x86("MEM_LOAD_L3_MISS_RETIRED.REMOTE_DRAM", 0xd3, 0x02)],
        ),
        counts: RETIRED_LOADS,
        source: "intel/perfmon SKX/events/skylakex_core.json",
    },
    Model {
        name: "Broadwell-EP/EX",
        matches: |p| intel(p, &[0x4f]),
        split: Split::LocalRemote(
            &[offcore("OFFCORE_RESPONSE.ALL_READS.LLC_MISS.LOCAL_DRAM", 0xb7, 0x6_0400_07f7)],
            &[offcore("OFFCORE_RESPONSE.ALL_READS.LLC_MISS.REMOTE_DRAM", 0xb7, 0x6_3bc0_07f7)],
        ),
        counts: READS,
        source: "intel/perfmon BDX/events/broadwellx_core.json",
    },
    Model {
        name: "Haswell-EP/EX",
        matches: |p| intel(p, &[0x3f]),
        split: Split::LocalRemote(
            &[offcore("OFFCORE_RESPONSE.ALL_READS.LLC_MISS.LOCAL_DRAM", 0xb7, 0x6_0040_07f7)],
            &[offcore("OFFCORE_RESPONSE.ALL_READS.LLC_MISS.REMOTE_DRAM", 0xb7, 0x6_3f80_07f7)],
        ),
        counts: READS,
        source: "intel/perfmon HSX/events/haswellx_core.json",
    },
    Model {
        name: "Ivy Bridge-EP/EX",
        matches: |p| intel(p, &[0x3e]),
        split: Split::LocalRemote(
            &[x86("MEM_LOAD_UOPS_LLC_MISS_RETIRED.LOCAL_DRAM", 0xd3, 0x03)],
            &[x86("MEM_LOAD_UOPS_LLC_MISS_RETIRED.REMOTE_DRAM", 0xd3, 0x0c)],
        ),
        counts: RETIRED_LOADS,
        source: "intel/perfmon IVT/events/ivytown_core.json",
    },
    Model {
        name: "Sandy Bridge-EP",
        matches: |p| intel(p, &[0x2d]),
        split: Split::LocalRemote(
            &[x86("MEM_LOAD_UOPS_LLC_MISS_RETIRED.LOCAL_DRAM", 0xd3, 0x01)],
            &[x86("MEM_LOAD_UOPS_LLC_MISS_RETIRED.REMOTE_DRAM", 0xd3, 0x04)],
        ),
        counts: RETIRED_LOADS,
        source: "intel/perfmon JKT/events/Jaketown_core.json",
    },
    Model {
        name: "Westmere-EX, Nehalem-EX, Nehalem-EP",
        matches: |p| intel(p, &[0x2f, 0x2e, 0x1a, 0x1e, 0x1f]),
        split: Split::LocalRemote(
            &[offcore("OFFCORE_RESPONSE_0.ANY_DATA.LOCAL_DRAM", 0xb7, 0x4011)],
            &[offcore("OFFCORE_RESPONSE_0.ANY_DATA.REMOTE_DRAM", 0xb7, 0x2011)],
        ),
        counts: "data reads into the core, prefetches included",
        source: "intel/perfmon WSM-EX/events/WestmereEX_core.json, NHM-EX/events/NehalemEX_core.json, \
                 NHM-EP/events/NehalemEP_core.json",
    },
    Model {
        name: "Neoverse N1, V1, N2, V2, N3, V3",
        matches: |p| neoverse(p, &[0xd0c, 0xd40, 0xd49, 0xd4f, 0xd8e, 0xd84]),
        split: Split::RemoteTotal(arm("REMOTE_ACCESS", 0x31), arm("LL_CACHE_MISS_RD", 0x37)),
        counts: NEOVERSE,
        source: "ARM-software/data pmu/neoverse-{n1,v1,n2,v2,n3,v3}.json",
    },
];

/// Offcore responses of Golden Cove and its successors. With sub-NUMA clusters, `LOCAL_DRAM` is
/// only the core's own cluster, and the sum includes all of them.
const READS_TO_CORE_2A: Split = Split::LocalTotal(
    offcore("OCR.READS_TO_CORE.LOCAL_DRAM", 0x2a, 0x1_0400_4477),
    offcore("OCR.READS_TO_CORE.DRAM", 0x2a, 0x7_3c00_4477),
);

#[cfg(test)]
mod tests {
    use super::*;

    fn name(processor: Processor) -> Option<&'static str> {
        Model::of(processor).map(|m| m.name)
    }

    #[test]
    fn the_papers_machines_are_known() {
        // numalloc: Xeon Platinum 8153; allocation-for-query-processing: E7-4870;
        // systematic-numa-study: Opteron of machine A, E7-4820 and E7-4850 v4.
        assert_eq!(
            name(Processor::Intel { family: 6, model: 85, stepping: 4 }),
            Some("Skylake-SP")
        );
        assert_eq!(
            name(Processor::Intel { family: 6, model: 47, stepping: 2 }),
            Some("Westmere-EX, Nehalem-EX, Nehalem-EP")
        );
        assert_eq!(
            name(Processor::Intel { family: 6, model: 79, stepping: 1 }),
            Some("Broadwell-EP/EX")
        );
        assert_eq!(name(Processor::Amd { family: 0x10, model: 8 }), Some("Opteron, family 10h"));
    }

    #[test]
    fn neighbours_in_numbering_are_distinguished() {
        let intel = |stepping| name(Processor::Intel { family: 6, model: 0x55, stepping });
        assert_eq!((intel(4), intel(7)), (Some("Skylake-SP"), Some("Cascade Lake-SP")));
        let amd = |family, model| name(Processor::Amd { family, model });
        assert_eq!(amd(0x17, 0x01), None);
        assert_eq!(amd(0x17, 0x31), Some("Zen 2"));
        assert_eq!(amd(0x19, 0x01), Some("Zen 3"));
        assert_eq!(amd(0x19, 0x11), Some("Zen 4"));
        assert_eq!(amd(0x19, 0x61), Some("Zen 4"));
        assert_eq!(amd(0x1a, 0x02), Some("Zen 5"));
        assert_eq!(amd(0x1a, 0x50), Some("Zen 6"));
        assert_eq!(name(Processor::Arm { implementer: 0x48, part: 0xd01 }), None);
    }

    #[test]
    fn every_entry_is_whole() {
        for model in MODELS {
            let events: Vec<DramEvent> = model.events().collect();
            assert!(events.len() >= 2, "{}", model.name);
            for (i, a) in events.iter().enumerate() {
                assert!(a.config != 0 && !a.name.is_empty(), "{}", model.name);
                assert!(events[i + 1..].iter().all(|b| a.event() != b.event()), "{}", model.name);
            }
            assert!(model.source.contains('/') && !model.counts.is_empty(), "{}", model.name);
        }
    }

    #[test]
    fn parts_and_wholes() {
        let split = |split, counts: &[f64]| Model { split, ..MODELS[0] }.local_remote(counts);
        let (a, b) = (arm("a", 1), arm("b", 2));
        assert_eq!(split(Split::LocalTotal(a, b), &[30.0, 40.0]), Some((30.0, 10.0)));
        assert_eq!(split(Split::RemoteTotal(a, b), &[30.0, 40.0]), Some((10.0, 30.0)));
        assert_eq!(split(Split::LocalTotal(a, b), &[41.0, 40.0]), Some((41.0, 0.0)));
        assert_eq!(split(Split::LocalTotal(a, b), &[1.0]), None);
        assert_eq!(
            Model::of(Processor::Amd { family: 0x17, model: 0x31 })
                .unwrap()
                .local_remote(&[1.0, 2.0, 3.0, 4.0]),
            Some((3.0, 7.0))
        );
    }
}
