//! The rule of default mode: keep the utilisation within a band, change by as many cores at once as
//! needed, and take no step without evidence that it helps.
//!
//! Sources: prt-pro (the states); Qin et al., "Arachne: Core-Aware Thread Management" (OSDI
//! 2018), section 5.3 (a core is released only when the load is clearly below the one at
//! which it had to be added); Documentation/accounting/psi.rst (pressure).
//!
//! - With W busy cores, the paper's thresholds treat any number of cores from W/0.7 to W/0.1 as
//!   stable, so nothing is given back after a burst. The band here is 45 to 70 %.
//! - Grow when the cores are busy *and* threads wait, to as many cores as there were threads that
//!   ran or waited, even if they waited behind other programs. If the number of waiting threads is
//!   unknown, the load decides; if all cores were busy, the number is tripled.
//! - Shrink by half of the excess in each tick, judged by the largest load of the last four ticks.
//!   A load that comes and goes from tick to tick keeps its cores. A target that waits behind other
//!   programs looks idle too, so where waiting threads are counted in some ticks only, cores are
//!   released only in those.
//! - Take back a growth that raised neither W nor the memory traffic while threads still wait (they
//!   are pinned, or wait for something else), and a release that made threads wait. Neither is
//!   tried again for some ticks; the pause doubles each time.

use std::collections::{BTreeMap, VecDeque};

use super::{Decision, Limits, Load, Thresholds, Why};
use crate::net::Verdict;

/// The largest load of this many ticks decides on fewer cores.
const PEAK_TICKS: usize = 4;
/// Waiting below this counts as none: 5 % of the time, or 5 % of a thread per core.
const NO_PRESSURE: f64 = 0.05;
/// Utilisation at which all cores are busy, and the number of cores needed is unknown.
const SATURATED: f64 = 0.95;
/// Factor of growth in that case.
const BLIND_GROWTH: u32 = 3;
/// How far the load per core must be below the one that made the target grow.
const MARGIN: f64 = 0.09;
/// Ticks for which that load is remembered, because the target may change its work.
const MEMORY_TICKS: u64 = 600;
/// Share of a new core that must be in use for the growth to count as useful.
const LEAST_USE: f64 = 0.1;
/// Growth of memory traffic that counts as useful.
const LEAST_TRAFFIC: f64 = 1.05;
/// Relative change of the load after which earlier experience does not apply.
const NEW_LOAD: f64 = 0.25;
/// Shortest and longest pause in ticks after a step that did not help.
const PAUSE_TICKS: (u64, u64) = (10, 640);

/// The rule with its memory.
#[derive(Clone, Debug)]
pub struct Band {
    thresholds: Thresholds,
    tick: u64,
    /// Loads of the last ticks.
    recent: VecDeque<f64>,
    /// Whether any tick so far has shown if threads wait.
    knows_waiting: bool,
    /// For each number of cores, the load at which they were too few, and when.
    too_few: BTreeMap<u32, (f64, u64)>,
    last: Option<Step>,
    growth: Pause,
    release: Pause,
}

/// The step of the last tick.
#[derive(Clone, Copy, Debug)]
struct Step {
    from: u32,
    to: u32,
    load: Load,
}

/// A pause before a step is tried again.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    until: u64,
    ticks: u64,
    /// The load to which it applies.
    busy: f64,
}

impl Pause {
    fn begin(&mut self, tick: u64, busy: f64) {
        self.ticks = (self.ticks * 2).clamp(PAUSE_TICKS.0, PAUSE_TICKS.1);
        (self.until, self.busy) = (tick + self.ticks, busy);
    }

    /// Whether the pause lasts. A different load ends it.
    fn is_on(&mut self, tick: u64, busy: f64) -> bool {
        if (busy - self.busy).abs() > NEW_LOAD * self.busy.max(1.0) {
            *self = Self::default();
        }
        tick < self.until
    }
}

impl Band {
    /// The band of default mode.
    pub const THRESHOLDS: Thresholds = Thresholds { idle: 0.45, overload: 0.70 };

    /// The rule with its own band.
    #[must_use]
    pub fn new(thresholds: Thresholds) -> Self {
        Self {
            thresholds,
            tick: 0,
            recent: VecDeque::with_capacity(PEAK_TICKS),
            knows_waiting: false,
            too_few: BTreeMap::new(),
            last: None,
            growth: Pause::default(),
            release: Pause::default(),
        }
    }

    /// Decides after a tick in which the target had `cores`.
    pub fn decide(&mut self, load: &Load, cores: u32, limits: Limits) -> Decision {
        self.tick += 1;
        let last = self.last.take().filter(|step| step.to == cores);
        let Some(busy) = load.busy else {
            return Decision::stay(Verdict::Stable, cores, Why::NoSample);
        };
        if self.recent.len() == PEAK_TICKS {
            self.recent.pop_front();
        }
        self.recent.push_back(busy);
        self.knows_waiting |= waits(load, cores).is_some();
        let mut decision = match last.and_then(|step| self.judge(step, load, busy, cores)) {
            Some(decision) => decision,
            None => self.step(load, busy, cores, limits),
        };
        decision.wanted = decision.wanted.clamp(limits.minimum, limits.maximum);
        if decision.wanted != cores {
            self.last = Some(Step { from: cores, to: decision.wanted, load: *load });
        }
        decision
    }

    /// Returns a decision if the last step is to be taken back.
    fn judge(&mut self, step: Step, load: &Load, busy: f64, cores: u32) -> Option<Decision> {
        let before = step.load.busy?;
        let pressed = waits(load, cores) == Some(true);
        if step.to > step.from {
            let new = f64::from(step.to - step.from);
            let used = busy > before + LEAST_USE * new.min(step.load.waiting.unwrap_or(new));
            let traffic = match (step.load.traffic, load.traffic) {
                (Some(before), Some(now)) => now > before * LEAST_TRAFFIC,
                _ => false,
            };
            // If others use the cores too, its share of them is up to the others.
            let shared = before < SATURATED * f64::from(step.from);
            // Less load than before is no proof: the burst may be over.
            if !pressed || used || traffic || shared || busy < before * (1.0 - NEW_LOAD) {
                return None;
            }
            self.growth.begin(self.tick, busy);
            return Some(Decision { verdict: Verdict::Idle, wanted: step.from, why: Why::NoGain });
        }
        // More load than before the release would have needed the cores anyway.
        let grown = busy > before * (1.0 + NEW_LOAD) + LEAST_USE;
        if !pressed || waits(&step.load, step.from) == Some(true) || grown {
            return None;
        }
        self.release.begin(self.tick, busy);
        self.remember(step.to, step.from, busy);
        Some(Decision { verdict: Verdict::Overload, wanted: step.from, why: Why::PutBack })
    }

    fn step(&mut self, load: &Load, busy: f64, cores: u32, limits: Limits) -> Decision {
        let peak = self.recent.iter().copied().fold(busy, f64::max);
        let of = |busy: f64| {
            let utilisation = busy / f64::from(cores.max(1));
            Verdict::of(Some(utilisation), self.thresholds.idle, self.thresholds.overload)
        };
        let waits = waits(load, cores);
        // If other programs use its cores too, a target looks idle while it waits.
        let demand = busy + load.waiting.or(load.pressure).unwrap_or(0.0);
        let verdict = match of(busy) {
            _ if waits == Some(true) && of(demand) == Verdict::Overload => Verdict::Overload,
            Verdict::Idle if of(peak) != Verdict::Idle => Verdict::Stable,
            verdict => verdict,
        };
        match verdict {
            Verdict::Stable => Decision::stay(verdict, cores, Why::InBand),
            Verdict::Overload if waits == Some(false) => {
                Decision::stay(Verdict::Stable, cores, Why::NobodyWaits)
            }
            Verdict::Overload if self.growth.is_on(self.tick, busy) => {
                Decision::stay(Verdict::Stable, cores, Why::NoGain)
            }
            Verdict::Overload => {
                let wanted = self.needed(load, busy, cores).clamp(cores, limits.maximum);
                self.remember(cores, wanted, busy + load.waiting.unwrap_or(0.0));
                Decision { verdict, wanted, why: Why::Busy }
            }
            Verdict::Idle if cores <= limits.minimum => Decision::stay(verdict, cores, Why::Unused),
            Verdict::Idle if waits == Some(true) => {
                Decision::stay(Verdict::Stable, cores, Why::Contended)
            }
            Verdict::Idle if waits.is_none() && self.knows_waiting => {
                Decision::stay(Verdict::Stable, cores, Why::WaitingUnknown)
            }
            Verdict::Idle if self.release.is_on(self.tick, busy) => {
                Decision::stay(Verdict::Stable, cores, Why::BackingOff)
            }
            Verdict::Idle => self.fewer(peak, cores, limits),
        }
    }

    /// The number of cores for the threads that ran and waited.
    fn needed(&self, load: &Load, busy: f64, cores: u32) -> u32 {
        let needed = match load.waiting {
            Some(waiting) => whole(busy + waiting),
            None if busy >= SATURATED * f64::from(cores) => cores.saturating_mul(BLIND_GROWTH),
            None => whole(busy / self.middle()),
        };
        needed.max(cores + 1)
    }

    /// Releases half of the excess, but keeps a number that was too few before.
    fn fewer(&self, busy: f64, cores: u32, limits: Limits) -> Decision {
        let excess = f64::from(cores) - busy / self.middle();
        // With fewer cores than this, they would be too busy again.
        let least = whole(busy / self.thresholds.overload).max(limits.minimum);
        let goal = cores.saturating_sub(whole(excess / 2.0)).max(least);
        let mut wanted = cores;
        while wanted > goal && !self.was_too_few(wanted - 1, busy) {
            wanted -= 1;
        }
        if wanted == cores {
            let why = if goal < cores { Why::Remembered } else { Why::InBand };
            return Decision::stay(Verdict::Stable, cores, why);
        }
        Decision { verdict: Verdict::Idle, wanted, why: Why::Unused }
    }

    fn was_too_few(&self, cores: u32, busy: f64) -> bool {
        self.too_few.get(&cores).is_some_and(|(load, tick)| {
            self.tick - tick < MEMORY_TICKS && busy >= load - MARGIN * f64::from(cores)
        })
    }

    /// Remembers that `cores` and every lower number were too few for a load.
    fn remember(&mut self, cores: u32, enough: u32, load: f64) {
        for few in (cores..enough).take_while(|few| *few == cores || f64::from(*few) < load) {
            self.too_few.insert(few, (load.min(f64::from(few)), self.tick));
        }
    }

    const fn middle(&self) -> f64 {
        f64::midpoint(self.thresholds.idle, self.thresholds.overload)
    }
}

/// Whether threads wait for a core; `None` if unknown.
fn waits(load: &Load, cores: u32) -> Option<bool> {
    let share = load.pressure.or(load.waiting.map(|waiting| waiting / f64::from(cores.max(1))))?;
    Some(share > NO_PRESSURE)
}

/// Rounds up to whole cores, ignoring rounding errors of the arithmetic.
fn whole(cores: f64) -> u32 {
    // The cast saturates, and NaN becomes 0.
    (cores - 1e-9).ceil() as u32
}
