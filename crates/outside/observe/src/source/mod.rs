//! Where sampled accesses come from: the best source that is there.
//!
//! ```text
//!  PMU of a lab ------------------------------+
//!  IBS, PEBS, SPE (hardware) -----------------+--> Source --> samples, each standing for so many accesses
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

/// A source that is better than the one in use, and why it is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    /// The source.
    pub name: &'static str,
    /// Why.
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
    /// The best PMU that samples the accesses of a target, if there is one, and those that are
    /// passed over. It samples from now on.
    #[must_use]
    pub fn pmu(whose: &Attach, cpus: &CpuSet) -> (Option<Self>, Vec<PassedOver>) {
        // A ring for every thread or CPU.
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

    /// The page faults that AutoNUMA makes.
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

    /// As it is shown.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match &self.kind {
            Kind::Lab(_) => LabSamples::NAME,
            Kind::Hardware(hardware) => hardware.name(),
            Kind::HintFaults(_) => HintFaults::NAME,
        }
    }

    /// Whether its samples are what AutoNUMA sees, which then moves pages itself.
    #[must_use]
    pub const fn needs_auto_numa(&self) -> bool {
        matches!(self.kind, Kind::HintFaults(_))
    }

    /// Takes the samples of DRAM accesses that came since the last time.
    pub fn take_samples(&mut self, into: &mut Vec<Sample>) {
        match &mut self.kind {
            Kind::Lab(lab) => lab.take_samples(into),
            Kind::Hardware(hardware) => hardware.take_samples(into),
            Kind::HintFaults(faults) => into.extend(faults.samples()),
        }
    }

    /// Forgets what was sampled while a decision was made and carried out: pages have moved
    /// since. Hint faults are kept: there are few, and no rate is reckoned by them.
    pub fn skip(&mut self) {
        match &mut self.kind {
            Kind::Lab(lab) => lab.skip(),
            Kind::Hardware(hardware) => hardware.skip(),
            Kind::HintFaults(_) => {}
        }
    }

    /// Takes no samples until [`Source::skip`]; whether it can: hint faults come as long as
    /// AutoNUMA is on.
    pub fn stop(&mut self) -> bool {
        match &mut self.kind {
            Kind::Lab(lab) => lab.stop(),
            Kind::Hardware(hardware) => hardware.stop(),
            Kind::HintFaults(_) => return false,
        }
        true
    }

    /// Ends an interval: DRAM accesses that each sample taken in it stands for; `None` where it
    /// cannot be told. The next one may be sampled more or less often.
    pub fn end_interval(&mut self) -> Option<f64> {
        match &mut self.kind {
            Kind::Lab(lab) => Some(lab.end_interval()),
            Kind::Hardware(hardware) => Some(hardware.end_interval()),
            Kind::HintFaults(_) => None,
        }
    }

    /// Lines that went between each node (row) and the memory of each (column) in this interval,
    /// with those that were written back: the whole machine's. `None` where nothing counts them.
    #[must_use]
    pub fn traffic(&self) -> Option<Vec<Vec<f64>>> {
        match &self.kind {
            Kind::Lab(lab) => Some(lab.traffic()),
            Kind::Hardware(_) | Kind::HintFaults(_) => None,
        }
    }

    /// Time since it began, on this machine's clock.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The clock of the accesses: a lab's is simulated, and rates are by that.
    #[must_use]
    pub fn accessed_ns(&self) -> u64 {
        match &self.kind {
            Kind::Lab(lab) => lab.time_ns(),
            Kind::Hardware(_) | Kind::HintFaults(_) => self.now_ns(),
        }
    }

    /// Samples that were lost so far, and times that the kernel held samples back.
    #[must_use]
    pub fn lost(&self) -> u64 {
        match &self.kind {
            Kind::Lab(lab) => lab.lost(),
            Kind::Hardware(hardware) => hardware.lost(),
            Kind::HintFaults(faults) => faults.lost(),
        }
    }
}
