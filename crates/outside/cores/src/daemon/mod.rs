//! Controls targets: each tick measures them, decides, and puts them on their CPUs.

mod linux;
mod system;

use std::time::{Duration, Instant};

use numapilot_topology::{CpuSet, Machine};

use self::linux::Linux;
use self::system::{System, Target as _};
use crate::CoresError;
use crate::actuator::{Notes, Way};
use crate::allocation::{Demand, allocate_cores};
use crate::assignment::{Request, assign_cpus};
use crate::decide::{Controller, Decision, Limits, Load};
use crate::layout::{Layout, NodeUse, NodeUses, Spread};
use crate::net::{Net, Run, Transition};

/// The settings that all targets share.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The rule that decides how many cores a target gets.
    pub controller: Controller,
    /// How cores are spread.
    pub spread: Spread,
    /// Fewest cores of a target.
    pub minimum: u32,
    /// Most cores of a target. `None` means all.
    pub maximum: Option<u32>,
    /// How a target is held. `None` means the first way that works.
    pub way: Option<Way>,
    /// Whether to decide only and change nothing.
    pub dry_run: bool,
}

/// The result of a tick for one target.
#[derive(Clone, Debug)]
pub struct Report {
    /// The target's process ID.
    pub pid: i32,
    /// The measured load.
    pub load: Load,
    /// Cores that it had during the tick.
    pub cores: u32,
    /// The decision that follows.
    pub decision: Decision,
    /// The transitions of the net that fired.
    pub firings: Vec<Transition>,
    /// CPUs that it has now.
    pub cpus: CpuSet,
    /// Threads that the program has pinned itself.
    pub pinned: usize,
}

/// A target that came under control.
#[derive(Clone, Debug)]
pub struct Added {
    /// How it is held.
    pub held_by: String,
    /// What counts its memory traffic, or why nothing does.
    pub traffic: Result<&'static str, String>,
}

/// A target that is no longer under control.
#[derive(Debug)]
pub struct Left {
    /// Its process ID.
    pub pid: i32,
    /// Why it was left; `None` when it or the run has ended.
    pub why: Option<CoresError>,
    /// What could not be put back exactly, or why nothing could be put back.
    pub put_back: Result<Notes, CoresError>,
}

impl Left {
    /// Whether it was left because of an error, or could not be put back.
    #[must_use]
    pub fn failed(&self) -> bool {
        let is_error = |error: &CoresError| !matches!(error, CoresError::Gone);
        self.why.iter().chain(self.put_back.as_ref().err()).any(is_error)
    }
}

struct Target<T> {
    root: i32,
    weight: u32,
    held: T,
    controller: Controller,
    run: Run,
    /// CPUs that it may use, including those that others hold.
    allowed: CpuSet,
    available: CpuSet,
    layout: Layout,
    cpus: CpuSet,
    uses: NodeUses,
}

/// All targets of this process, on the running system or on a simulated one.
pub struct Daemon<S: System = Linux> {
    system: S,
    machine: Machine,
    settings: Settings,
    targets: Vec<Target<S::Target>>,
    startup: Startup,
}

/// A program creates as many threads as it finds cores when it starts, and keeps that number. For a
/// while it therefore keeps all cores.
#[derive(Clone, Copy, Debug)]
enum Startup {
    Over,
    Lasts { begin: Instant, time: Duration },
}

impl Daemon {
    /// Begins without targets.
    ///
    /// # Errors
    /// Fails if there is no place for records.
    pub fn new(machine: Machine, settings: Settings) -> Result<Self, CoresError> {
        Ok(Self::on(Linux::new()?, machine, settings))
    }
}

impl<S: System> Daemon<S> {
    fn on(system: S, machine: Machine, settings: Settings) -> Self {
        Self { system, machine, settings, targets: Vec::new(), startup: Startup::Over }
    }

    /// The machine as it was last read.
    #[must_use]
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Takes a target under control. [`Daemon::begin`] comes next.
    ///
    /// # Errors
    /// [`CoresError`]; nothing is left changed.
    pub fn add(&mut self, root: i32, tree: S::Tree, weight: u32) -> Result<Added, CoresError> {
        for other in &self.targets {
            if other.held.contains(root) {
                return Err(CoresError::Related { child: root, parent: other.root });
            }
            if S::contains(&tree, other.root) {
                return Err(CoresError::Related { child: other.root, parent: root });
            }
        }
        let (plan, allowed) = self.system.plan(root, tree, self.settings.way)?;
        let available = self.available(root, &allowed)?;
        let held = self.system.hold(plan, &available, self.settings.dry_run)?;
        // Another daemon may have begun at the same time, and been the first.
        let available = match self.available(root, &allowed) {
            Ok(available) => available,
            Err(error) => {
                // The first error is the one that matters.
                let _ = held.release();
                return Err(error);
            }
        };
        let (held_by, traffic) = (held.held_by(), held.traffic());
        let cores = number(available.len());
        self.targets.push(Target {
            root,
            weight,
            held,
            controller: self.settings.controller.clone(),
            run: Run::new(Net::new(self.settings.minimum, cores), cores),
            allowed,
            cpus: CpuSet::new(),
            layout: Layout::of(&self.machine, &available, self.settings.spread),
            available,
            uses: NodeUses::new(),
        });
        Ok(Added { held_by, traffic })
    }

    /// The CPUs that no target of another daemon has, if they suffice for a further target.
    fn available(&mut self, root: i32, allowed: &CpuSet) -> Result<CpuSet, CoresError> {
        let available = allowed.difference(&self.system.cpus_of_others()?);
        let minimum = self.settings.minimum as usize;
        let left = |cpus: &CpuSet| cpus.len().saturating_sub(minimum * self.targets.len());
        if left(&available) < minimum {
            let wanted = self.settings.minimum;
            if allowed.len() >= minimum && left(allowed) < minimum {
                let (targets, there) = (self.targets.len() + 1, allowed.len());
                return Err(CoresError::TooMany { targets, wanted, there });
            }
            return Err(lack(root, wanted, allowed.len(), left(&available)));
        }
        Ok(available)
    }

    /// Gives every target its first cores: all that it may use. Targets that were just started keep
    /// them for `startup`.
    pub fn begin(&mut self, startup: Option<Duration>) -> Vec<Left> {
        let lasts = |time| Startup::Lasts { begin: self.system.now(), time };
        self.startup = startup.map_or(Startup::Over, lasts);
        let wanted: Vec<u32> =
            self.targets.iter().map(|t| limits(&self.settings, t).maximum).collect();
        let assigned = self.assign(&wanted);
        let mut failed = Vec::new();
        for (at, cpus) in self.shrinking_first(&assigned) {
            let target = &mut self.targets[at];
            let limits = limits(&self.settings, target);
            target.run = Run::new(Net::new(limits.minimum, limits.maximum), number(cpus.len()));
            if let Err(error) = target.put(&cpus) {
                failed.push((target.root, error));
            }
        }
        self.drop_failed(failed)
    }

    /// Whether no target is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Net, marking and last firings of every target.
    pub fn runs(&self) -> impl Iterator<Item = (i32, &Run)> {
        self.targets.iter().map(|target| (target.root, &target.run))
    }

    /// CPUs of every target.
    pub fn cpus(&self) -> impl Iterator<Item = (i32, &CpuSet)> {
        self.targets.iter().map(|target| (target.root, &target.cpus))
    }

    /// Measures, decides and acts.
    pub fn tick(&mut self) -> (Vec<Report>, Vec<Left>) {
        let mut left = self.drop_ended();
        let mut failed = Vec::new();
        let others = match self.system.cpus_of_others() {
            Ok(others) => others,
            Err(error) => {
                // Without the records it is unknown which cores are free, so all stays as it is.
                let pids: Vec<i32> = self.targets.iter().map(|target| target.root).collect();
                let failed = pids.first().map(|pid| (*pid, error)).into_iter().collect();
                left.extend(self.drop_failed(failed));
                left.extend(self.end());
                return (Vec::new(), left);
            }
        };
        let mut decided = Vec::new();
        let startup = self.startup;
        let starts = startup.lasts(self.system.now());
        if !starts {
            self.startup = Startup::Over;
        }
        for target in &mut self.targets {
            if let Err(error) = target.see(&self.system, &mut self.machine, &others, &self.settings)
            {
                failed.push((target.root, error));
            }
            let most = self.machine.cpus.len();
            let load = target.held.load(most);
            let cores = number(target.cpus.len());
            let limits = limits(&self.settings, target);
            let decision = match startup {
                Startup::Lasts { .. } if starts => Decision::starts(limits.maximum),
                Startup::Lasts { .. } => target.controller.begin(&load, cores, limits),
                Startup::Over => target.controller.decide(&load, cores, limits),
            };
            decided.push((load, cores, decision));
        }
        let wanted: Vec<u32> = decided.iter().map(|(.., decision)| decision.wanted).collect();
        let assigned = self.assign(&wanted);
        let mut reports: Vec<Option<Report>> = decided.iter().map(|_| None).collect();
        for (at, cpus) in self.shrinking_first(&assigned) {
            let target = &mut self.targets[at];
            let (load, before, decision) = decided[at];
            let (now, own) = (number(cpus.len()), limits(&self.settings, target));
            // Others have the rest: for the net, no other cores exist.
            let most = if now < decision.wanted { now } else { own.maximum };
            target.run.limit(own.minimum.min(now.max(1)), most.max(now));
            target.run.tick(decision.verdict, now);
            let done = if cpus == target.cpus {
                target.held.keep(&target.cpus)
            } else {
                target.put(&cpus)
            };
            if let Err(error) = done {
                failed.push((target.root, error));
            }
            reports[at] = Some(Report {
                pid: target.root,
                load,
                cores: before,
                decision,
                firings: target.run.firings().to_vec(),
                cpus,
                pinned: target.held.pinned(),
            });
        }
        left.extend(self.drop_failed(failed));
        (reports.into_iter().flatten().collect(), left)
    }

    /// Puts everything back. Returns the targets that this released.
    pub fn end(&mut self) -> Vec<Left> {
        std::mem::take(&mut self.targets).into_iter().map(Target::release).collect()
    }

    fn assign(&self, wanted: &[u32]) -> Vec<CpuSet> {
        let minimum = self.settings.minimum;
        let demands: Vec<Demand> = self
            .targets
            .iter()
            .zip(wanted)
            .map(|(target, wanted)| Demand { minimum, wanted: *wanted, weight: target.weight })
            .collect();
        let pool = self.targets.iter().fold(CpuSet::new(), |all, t| all.union(&t.available));
        let granted = allocate_cores(&demands, number(pool.len()));
        let requests: Vec<Request<'_>> = self
            .targets
            .iter()
            .zip(granted)
            .map(|(target, granted)| Request {
                layout: &target.layout,
                available: &target.available,
                held: &target.cpus,
                uses: &target.uses,
                granted,
                minimum,
            })
            .collect();
        assign_cpus(&requests)
    }

    /// Targets that lose a core come before those that gain one, so two targets never hold the same
    /// core.
    fn shrinking_first(&self, assigned: &[CpuSet]) -> Vec<(usize, CpuSet)> {
        let mut all: Vec<(usize, CpuSet)> = assigned.iter().cloned().enumerate().collect();
        all.sort_by_key(|(at, cpus)| !cpus.is_subset(&self.targets[*at].cpus));
        all
    }

    fn drop_ended(&mut self) -> Vec<Left> {
        let ended = self.targets.iter_mut().filter_map(|t| t.held.has_ended().then_some(t.root));
        let ended: Vec<i32> = ended.collect();
        ended.into_iter().filter_map(|pid| self.leave(pid, None)).collect()
    }

    fn drop_failed(&mut self, failed: Vec<(i32, CoresError)>) -> Vec<Left> {
        failed.into_iter().filter_map(|(pid, error)| self.leave(pid, Some(error))).collect()
    }

    /// Releases a target. Its record stays if it cannot be put back.
    fn leave(&mut self, pid: i32, why: Option<CoresError>) -> Option<Left> {
        let at = self.targets.iter().position(|target| target.root == pid)?;
        let target = self.targets.remove(at);
        Some(Left { why, ..target.release() })
    }
}

impl Startup {
    fn lasts(self, now: Instant) -> bool {
        matches!(self, Self::Lasts { begin, time } if now.duration_since(begin) < time)
    }
}

impl<S: System> Drop for Daemon<S> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<T: system::Target> Target<T> {
    /// Checks what may have changed around the target.
    fn see(
        &mut self,
        system: &impl System,
        machine: &mut Machine,
        others: &CpuSet,
        settings: &Settings,
    ) -> Result<(), CoresError> {
        if let Some(allowed) = self.held.changed_cpus()? {
            self.allowed = allowed;
        }
        let available = self.allowed.difference(others);
        if available.is_empty() {
            return Err(lack(self.root, settings.minimum, self.allowed.len(), 0));
        }
        if available != self.available {
            let known = machine.online_cpus();
            if !available.is_subset(&known) {
                *machine = system.machine()?;
            }
            self.layout = Layout::of(machine, &available, settings.spread);
            self.available = self.layout.all();
        }
        if settings.spread == Spread::Adaptive
            && let Some(nodes) = self.held.node_bytes()
        {
            // The load of the memory controllers is not measured here.
            let node_use = |(node, bytes)| (node, NodeUse { bytes, room: 1.0 });
            self.uses = nodes.into_iter().map(node_use).collect();
        }
        Ok(())
    }

    /// Puts the target on these CPUs.
    fn put(&mut self, cpus: &CpuSet) -> Result<(), CoresError> {
        self.held.set(&self.cpus, cpus)?;
        self.cpus = cpus.clone();
        Ok(())
    }

    /// Puts the target back as it was.
    fn release(self) -> Left {
        Left { pid: self.root, why: None, put_back: self.held.release() }
    }
}

/// The error of a target that may use `allowed` CPUs, of which too few are free.
const fn lack(pid: i32, wanted: u32, allowed: usize, free: usize) -> CoresError {
    if allowed < wanted as usize {
        CoresError::TooFew { pid, wanted, there: allowed }
    } else {
        CoresError::Occupied { pid, wanted, there: free }
    }
}

fn limits<T>(settings: &Settings, target: &Target<T>) -> Limits {
    let all = number(target.available.len()).max(1);
    let minimum = settings.minimum.min(all);
    let maximum = settings.maximum.map_or(all, |maximum| maximum.min(all)).max(minimum);
    Limits { minimum, maximum }
}

fn number(cpus: usize) -> u32 {
    u32::try_from(cpus).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
