//! The rings of a target's events: one for each CPU, into which the events of all threads write.

use std::io;

use numapilot_sys::perf::Scope;
use numapilot_sys::ring::{Record, Ring};
use numapilot_sys::sampling::SampledEvent;
use numapilot_topology::CpuSet;

use crate::pmu::Attach;

/// The rings of a target's events.
#[derive(Debug)]
pub struct Rings {
    rings: Vec<Ring>,
    /// Events that write into another event's ring.
    events: Vec<SampledEvent>,
}

impl Rings {
    /// Opens an event for each thread of a target on each CPU, or for each CPU.
    ///
    /// # Errors
    /// As [`SampledEvent::open`] and [`Ring::of`]. A thread that has ended meanwhile is no error.
    pub fn open(
        whose: &Attach,
        cpus: &CpuSet,
        aux: bool,
        open: impl Fn(Scope, u32) -> io::Result<SampledEvent>,
    ) -> io::Result<Self> {
        let scopes = whose.scopes();
        let (mut rings, mut events) = (Vec::new(), Vec::new());
        for cpu in cpus.iter() {
            let mut ring: Option<Ring> = None;
            for &scope in &scopes {
                if matches!(scope, Scope::Cpu(other) if other != cpu.0) {
                    continue;
                }
                let event = match open(scope, cpu.0) {
                    // The thread has ended since it was listed.
                    Err(e) if e.raw_os_error() == Some(libc::ESRCH) => continue,
                    event => event?,
                };
                match &ring {
                    None if aux => ring = Some(Ring::with_aux(event)?),
                    None => ring = Some(Ring::of(event)?),
                    Some(ring) => {
                        ring.add(&event)?;
                        events.push(event);
                    }
                }
            }
            rings.extend(ring);
        }
        Ok(Self { rings, events })
    }

    /// Takes the records that have arrived since the last call.
    pub fn take_records(&mut self) -> Vec<Record> {
        self.rings.iter_mut().flat_map(Ring::take_records).collect()
    }

    /// Pauses sampling. If an event cannot be paused, it continues, and its samples are lost.
    pub fn pause(&self) {
        self.each().for_each(|event| drop(event.pause()));
    }

    /// Continues sampling.
    pub fn resume(&self) {
        self.each().for_each(|event| drop(event.resume()));
    }

    fn each(&self) -> impl Iterator<Item = &SampledEvent> {
        self.rings.iter().map(Ring::event).chain(&self.events)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.rings.len()
    }
}
