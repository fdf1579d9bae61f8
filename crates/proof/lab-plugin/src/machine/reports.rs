//! Regions of interest, and the report of what was counted.

use std::ffi::c_uint;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use numapilot_lab_pmu::{Mark, Snapshot};

use super::Machine;

impl Machine {
    /// A CPU executes a mark: a region of interest begins or ends.
    pub fn mark(&self, cpu: c_uint, mark: Mark) {
        // SAFETY: called from the CPU's execution callback.
        unsafe { self.publish_all() };
        // SAFETY: as above.
        let Some((core, _)) = (unsafe { self.cpu(cpu) }) else { return };
        let pmu = self.simulation.pmu();
        let counters = Snapshot::take(pmu);
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        if regions.mark(mark, &pmu.mark_name(), core.now_ps(), counters) {
            drop(regions);
            self.write_report();
        }
    }

    /// Process 1 of the guest calls the host.
    pub fn call(&self) {
        // SAFETY: called from a CPU's execution callback.
        unsafe { self.publish_all() };
        self.ports.serve(|| self.end());
    }

    /// Adds what all CPUs have counted so far to the PMU.
    ///
    /// # Safety
    /// As [`cpu`](Self::cpu), for all CPUs.
    unsafe fn publish_all(&self) {
        for cpu in 0..self.cpus.len() {
            // SAFETY: by contract.
            if let Some((core, _)) = unsafe { self.cpu_now(cpu as c_uint) } {
                self.simulation.publish(core);
            }
        }
    }

    /// Writes the last report: when the program ends or, if it has not ended, when QEMU ends.
    pub fn end(&self) {
        if !self.has_ended.swap(true, Relaxed) {
            self.write_report();
        }
    }

    /// Writes a report of all counts so far.
    fn write_report(&self) {
        let pmu = self.simulation.pmu();
        let regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let report = regions.report(pmu.time_ns() * 1000, &Snapshot::take(pmu));
        if let Err(error) = self.report.write(&report) {
            eprintln!("numapilot: cannot write the lab's report: {error}");
        }
    }
}
