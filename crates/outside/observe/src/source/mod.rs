//! The best source of sampled accesses on this machine.
//!
//! ```text
//!  PMU of a lab ------------------------------+
//!  IBS, PEBS, SPE (hardware) -----------------+--> Source --> samples, each for a number of accesses
//!  page faults that AutoNUMA makes (hint_faults) +
//! ```

mod lab_samples;

use std::io;
use std::time::Instant;

use numapilot_sys::open_files;
use numapilot_topology::CpuSet;

use self::lab_samples::LabSamples;
use crate::hardware::{AccessPmu, Hardware};
use crate::hint_faults::HintFaults;
use crate::lab::LabPmu;
use crate::pmu::Attach;
use crate::sample::Sample;

/// A better source that is not used, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    /// The source.
    pub name: &'static str,
    /// The reason.
    pub why: String,
}

/// A source that samples.
#[derive(Debug)]
pub struct Source {
    kind: Kind,
    began: Instant,
}

#[derive(Debug)]
enum Kind {
    Lab(LabSamples),
    Hardware(Hardware),
    HintFaults(HintFaults),
}

impl Source {
    /// Starts the best PMU that can sample the accesses of a target, if there is one. Also returns
    /// the sources that are passed over.
    #[must_use]
    pub fn pmu(whose: &Attach, cpus: &CpuSet) -> (Option<Self>, Vec<PassedOver>) {
        // One ring for every thread or CPU.
        open_files::raise();
        let mut passed_over = Vec::new();
        let mut pass = |name, why: String| passed_over.push(PassedOver { name, why });
        match LabPmu::find() {
            Ok(None) => {}
            Ok(Some(pmu)) => match LabSamples::begin(pmu) {
                Ok(lab) => return (Some(Self::new(Kind::Lab(lab))), passed_over),
                Err(error) => pass(LabSamples::NAME, error.to_string()),
            },
            Err(error) => pass(LabSamples::NAME, error.to_string()),
        }
        let Some(pmu) = AccessPmu::find("/".as_ref()) else {
            pass("memory sampling", "this machine shows no IBS, PEBS or SPE".to_owned());
            return (None, passed_over);
        };
        let name = pmu.name;
        match Hardware::open(pmu, whose, cpus) {
            Ok(hardware) => (Some(Self::new(Kind::Hardware(hardware))), passed_over),
            Err(error) => {
                pass(name, format!("{error}; see numapilot doctor"));
                (None, passed_over)
            }
        }
    }

    /// Starts sampling the hint faults of AutoNUMA.
    ///
    /// # Errors
    /// As [`HintFaults::open`].
    pub fn hint_faults(whose: &Attach, cpus: &CpuSet) -> io::Result<Self> {
        open_files::raise();
        Ok(Self::new(Kind::HintFaults(HintFaults::open(whose, cpus)?)))
    }

    fn new(kind: Kind) -> Self {
        Self { kind, began: Instant::now() }
    }

    /// The name that is shown.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match &self.kind {
            Kind::Lab(_) => LabSamples::NAME,
            Kind::Hardware(hardware) => hardware.name(),
            Kind::HintFaults(_) => HintFaults::NAME,
        }
    }

    /// Whether its samples depend on AutoNUMA, which then moves pages itself.
    #[must_use]
    pub const fn needs_auto_numa(&self) -> bool {
        matches!(self.kind, Kind::HintFaults(_))
    }

    /// Takes the samples of DRAM accesses that have arrived since the last call.
    pub fn take_samples(&mut self, into: &mut Vec<Sample>) {
        match &mut self.kind {
            Kind::Lab(lab) => lab.take_samples(into),
            Kind::Hardware(hardware) => hardware.take_samples(into),
            Kind::HintFaults(faults) => into.extend(faults.samples()),
        }
    }

    /// Drops the samples that arrived while a decision was made and carried out, because pages have
    /// moved since. Hint faults are kept, because they are few and no rate is computed from them.
    pub fn skip(&mut self) {
        match &mut self.kind {
            Kind::Lab(lab) => lab.skip(),
            Kind::Hardware(hardware) => hardware.skip(),
            Kind::HintFaults(_) => {}
        }
    }

    /// Stops sampling until [`Source::skip`]. Returns whether that is possible: hint faults arrive
    /// as long as AutoNUMA is on.
    pub fn stop(&mut self) -> bool {
        match &mut self.kind {
            Kind::Lab(lab) => lab.stop(),
            Kind::Hardware(hardware) => hardware.stop(),
            Kind::HintFaults(_) => return false,
        }
        true
    }

    /// Ends an interval. Returns the number of DRAM accesses that each of its samples represents,
    /// or `None` if that is unknown. The next interval may have another sampling rate.
    pub fn end_interval(&mut self) -> Option<f64> {
        match &mut self.kind {
            Kind::Lab(lab) => Some(lab.end_interval()),
            Kind::Hardware(hardware) => Some(hardware.end_interval()),
            Kind::HintFaults(_) => None,
        }
    }

    /// Cache lines that were transferred between each node (row) and the memory of each node
    /// (column) in this interval, including write-backs, for the whole machine. `None` if they are
    /// not counted.
    #[must_use]
    pub fn traffic(&self) -> Option<Vec<Vec<f64>>> {
        match &self.kind {
            Kind::Lab(lab) => Some(lab.traffic()),
            Kind::Hardware(_) | Kind::HintFaults(_) => None,
        }
    }

    /// Time since the source started, on this machine's clock.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Time on the clock of the accesses, for rates. In a lab it is simulated.
    #[must_use]
    pub fn accessed_ns(&self) -> u64 {
        match &self.kind {
            Kind::Lab(lab) => lab.time_ns(),
            Kind::Hardware(_) | Kind::HintFaults(_) => self.now_ns(),
        }
    }

    /// Number of samples lost so far, plus the number of times the kernel throttled the event.
    #[must_use]
    pub fn lost(&self) -> u64 {
        match &self.kind {
            Kind::Lab(lab) => lab.lost(),
            Kind::Hardware(hardware) => hardware.lost(),
            Kind::HintFaults(faults) => faults.lost(),
        }
    }
}
