//! The rule of default mode: a band of utilisation, as many cores at once as it takes, and
//! no step without evidence that it helps.
//!
//! Sources: prt-pro (the states); Qin et al., "Arachne: Core-Aware Thread Management" (OSDI
//! 2018), section 5.3 (a core is released only when the load is clearly below the one at
//! which it had to be added); Documentation/accounting/psi.rst (pressure).
//!
//! - With W busy cores the paper's thresholds call everything from W/0.7 to W/0.1 cores
//!   stable: after a burst nothing is given back. The band is 45 to 70 %.
//! - More: when the cores are busy *and* threads wait. As many as the threads that ran and
//!   waited, also where they waited behind other programs; where it is not known how many wait, the load decides, and threefold when all
//!   cores were busy.
//! - Fewer: half of what is too much in each tick, by the largest load of the last four: what
//!   comes and goes from tick to tick keeps its cores.
//! - A growth that raised neither W nor the memory traffic while threads still wait (they
//!   are pinned, or wait for something else) is taken back; a release that made threads
//!   wait, too. Either is then not tried for some ticks, twice as many each time.

use std::collections::{BTreeMap, VecDeque};

use super::{Decision, Limits, Load, Thresholds, Why};
use crate::net::Verdict;

/// Ticks whose largest load decides on fewer cores.
const PEAK_TICKS: usize = 4;
/// Waiting that is none: 5 % of the time, or 5 % of a thread for each core.
const NO_PRESSURE: f64 = 0.05;
/// All cores are busy: nobody knows how many more would be.
const SATURATED: f64 = 0.95;
/// What saturated cores are multiplied by, then.
const BLIND_GROWTH: u32 = 3;
/// How far a load must be below the one that made the target grow, for each core.
const MARGIN: f64 = 0.09;
/// Ticks for which that load is remembered: what the target does may change.
const MEMORY_TICKS: u64 = 600;
/// Share of a new core that must have been used for the growth to have brought something.
const LEAST_USE: f64 = 0.1;
/// Growth of memory traffic that counts as something.
const LEAST_TRAFFIC: f64 = 1.05;
/// Change of the load that makes everything new.
const NEW_LOAD: f64 = 0.25;
/// Ticks without another try after one that did not help.
const PAUSE_TICKS: (u64, u64) = (10, 640);

/// The rule with what it remembers.
#[derive(Clone, Debug)]
pub struct Band {
    thresholds: Thresholds,
    tick: u64,
    /// Loads of the last ticks.
    recent: VecDeque<f64>,
    /// Number of cores, and the load at which they were too few, and when.
    too_few: BTreeMap<u32, (f64, u64)>,
    last: Option<Step>,
    growth: Pause,
    release: Pause,
}

/// What was done in the last tick.
#[derive(Clone, Copy, Debug)]
struct Step {
    from: u32,
    to: u32,
    load: Load,
}

/// When something may be tried again.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    until: u64,
    ticks: u64,
    /// The load that it is about.
    busy: f64,
}

impl Pause {
    fn begin(&mut self, tick: u64, busy: f64) {
        self.ticks = (self.ticks * 2).clamp(PAUSE_TICKS.0, PAUSE_TICKS.1);
        (self.until, self.busy) = (tick + self.ticks, busy);
    }

    /// Whether it is on; another load ends it.
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

    /// The rule with a band of its own.
    #[must_use]
    pub fn new(thresholds: Thresholds) -> Self {
        Self {
            thresholds,
            tick: 0,
            recent: VecDeque::with_capacity(PEAK_TICKS),
            too_few: BTreeMap::new(),
            last: None,
            growth: Pause::default(),
            release: Pause::default(),
        }
    }

    /// What follows from a tick in which the target had `cores`.
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

    /// Whether the last step is to be taken back.
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
            // What it gets of cores that others use as well is up to them.
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
        // Where other programs use its cores as well, a target looks idle while it waits.
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
            Verdict::Idle if self.release.is_on(self.tick, busy) => {
                Decision::stay(Verdict::Stable, cores, Why::BackingOff)
            }
            Verdict::Idle => self.fewer(peak, cores, limits),
        }
    }

    /// Cores for the threads that ran and waited.
    fn needed(&self, load: &Load, busy: f64, cores: u32) -> u32 {
        let needed = match load.waiting {
            Some(waiting) => whole(busy + waiting),
            None if busy >= SATURATED * f64::from(cores) => cores.saturating_mul(BLIND_GROWTH),
            None => whole(busy / self.middle()),
        };
        needed.max(cores + 1)
    }

    /// Half of what is too much, as far as was not too few before.
    fn fewer(&self, busy: f64, cores: u32, limits: Limits) -> Decision {
        let excess = f64::from(cores) - busy / self.middle();
        // With fewer than this they would be too busy again.
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

    /// `cores` were too few for a load, and so is every number below it.
    fn remember(&mut self, cores: u32, enough: u32, load: f64) {
        for few in (cores..enough).take_while(|few| *few == cores || f64::from(*few) < load) {
            self.too_few.insert(few, (load.min(f64::from(few)), self.tick));
        }
    }

    const fn middle(&self) -> f64 {
        f64::midpoint(self.thresholds.idle, self.thresholds.overload)
    }
}

/// Whether threads wait for a core; `None` where nothing tells.
fn waits(load: &Load, cores: u32) -> Option<bool> {
    let share = load.pressure.or(load.waiting.map(|waiting| waiting / f64::from(cores.max(1))))?;
    Some(share > NO_PRESSURE)
}

/// Rounded up to whole cores; the small part that arithmetic adds does not count.
fn whole(cores: f64) -> u32 {
    // Saturates, also for what is no number.
    (cores - 1e-9).ceil() as u32
}
