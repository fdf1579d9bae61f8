//! The search space: the plans that are compared, and the reasons why others are not.
//!
//! The four factors of systematic-numa-study (section 3: allocator, thread placement,
//! memory placement, OS configuration) with the levels that make sense on this machine.
//! Level 0 of every factor changes nothing, so the plan of all levels 0 is the default.

mod earlier;
mod levels;
mod request;

use numapilot_place::{
    AllocatorChoice, Daemons, MemoryPolicy, NumaBalancing, Plan, Thp, ThreadPlacement,
};
use serde::{Deserialize, Serialize};

use crate::shape::{Candidate, Shape};
pub use levels::Facts;
pub use request::{Request, RequestError};

/// The factors that can be varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FactorName {
    /// The malloc.
    Allocator,
    /// Thread placement.
    Threads,
    /// Memory policy.
    Memory,
    /// Transparent huge pages.
    Thp,
    /// Automatic NUMA balancing.
    NumaBalancing,
    /// Daemons beside the program. They are compared on request only.
    Daemons,
}

impl FactorName {
    /// All factors, in the order of tables.
    pub const ALL: [Self; 6] = [
        Self::Allocator,
        Self::Threads,
        Self::Memory,
        Self::Thp,
        Self::NumaBalancing,
        Self::Daemons,
    ];

    /// Its name in options, tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocator => "allocator",
            Self::Threads => "threads",
            Self::Memory => "memory",
            Self::Thp => "thp",
            Self::NumaBalancing => "numa-balancing",
            Self::Daemons => "daemons",
        }
    }
}

/// One setting of one factor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// A malloc.
    Allocator(AllocatorChoice),
    /// A thread placement.
    Threads(ThreadPlacement),
    /// A memory policy.
    Memory(MemoryPolicy),
    /// A setting of transparent huge pages.
    Thp(Thp),
    /// A setting of automatic NUMA balancing.
    NumaBalancing(NumaBalancing),
    /// Daemons.
    Daemons(Daemons),
}

impl Level {
    /// Its name in options, tables and JSON.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Allocator(choice) => choice.to_string(),
            Self::Threads(placement) => placement.name().to_owned(),
            Self::Memory(policy) => policy.to_string(),
            Self::Thp(thp) => thp.name().to_owned(),
            Self::NumaBalancing(balancing) => balancing.name().to_owned(),
            Self::Daemons(daemons) => daemons.name().to_owned(),
        }
    }

    /// The level of this factor that changes nothing.
    #[must_use]
    pub fn neutral(factor: FactorName) -> Self {
        match factor {
            FactorName::Allocator => Self::Allocator(AllocatorChoice::Inherit),
            FactorName::Threads => Self::Threads(ThreadPlacement::None),
            FactorName::Memory => Self::Memory(MemoryPolicy::default()),
            FactorName::Thp => Self::Thp(Thp::Inherit),
            FactorName::NumaBalancing => Self::NumaBalancing(NumaBalancing::Inherit),
            FactorName::Daemons => Self::Daemons(Daemons::None),
        }
    }

    /// Whether it may change a setting of the whole machine during a run: not every kernel has a
    /// call that sets huge pages or AutoNUMA for one program only.
    #[must_use]
    pub fn may_be_machine_wide(&self) -> bool {
        matches!(
            self,
            Self::Thp(Thp::Always) | Self::NumaBalancing(NumaBalancing::On | NumaBalancing::Off)
        )
    }

    /// Whether a plan has it.
    #[must_use]
    pub fn is_in(&self, plan: &Plan) -> bool {
        let mut with = plan.clone();
        self.apply(&mut with);
        with == *plan
    }

    /// Sets it in a plan.
    pub fn apply(&self, plan: &mut Plan) {
        match self {
            Self::Allocator(choice) => plan.allocator = choice.clone(),
            Self::Threads(placement) => plan.threads = *placement,
            Self::Memory(policy) => plan.memory = policy.clone(),
            Self::Thp(thp) => plan.thp = *thp,
            Self::NumaBalancing(balancing) => plan.numa_balancing = *balancing,
            Self::Daemons(daemons) => plan.daemons = *daemons,
        }
    }
}

/// A factor with the levels that are compared, at least two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    /// The factor.
    pub name: FactorName,
    /// Its levels; the first changes nothing.
    pub levels: Vec<Level>,
}

/// A factor or level that is not compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The factor.
    pub factor: FactorName,
    /// The level; `None` stands for the whole factor.
    pub level: Option<String>,
    /// The reason.
    pub reason: String,
}

/// All plans under comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// The factors.
    pub factors: Vec<Factor>,
    /// Plans that the user added.
    pub extras: Vec<Plan>,
    /// Pairs of levels, each as (factor, level), that cannot be applied together.
    pub excluded: Vec<[(usize, usize); 2]>,
    /// Factors and levels that are not compared, with the reasons.
    pub skipped: Vec<Skipped>,
}

impl Space {
    /// Makes the space from the facts and the user's requests. `applies` fails for a plan that
    /// cannot be applied here.
    #[must_use]
    pub fn new(
        facts: &Facts,
        requests: &[Request],
        extras: Vec<Plan>,
        applies: impl Fn(&Plan) -> Result<(), String>,
    ) -> Self {
        let mut space = Self::default();
        for name in FactorName::ALL {
            let request = requests.iter().rfind(|r| r.factor == name);
            let wanted = match request {
                Some(request) => request.levels.clone(),
                None => match facts.levels(name) {
                    Ok(levels) => levels,
                    Err(reason) => {
                        space.skipped.push(Skipped { factor: name, level: None, reason });
                        continue;
                    }
                },
            };
            let mut levels = vec![Level::neutral(name)];
            let mut refused = Vec::new();
            for level in wanted {
                if levels.contains(&level) {
                    continue;
                }
                let mut plan = Plan::default();
                level.apply(&mut plan);
                match applies(&plan) {
                    Ok(()) => levels.push(level),
                    Err(reason) => refused.push((level.name(), reason)),
                }
            }
            space.skipped.extend(by_reason(name, refused, levels.len() == 1));
            if levels.len() > 1 {
                space.factors.push(Factor { name, levels });
            } else if request.is_some() {
                let reason =
                    "it does not vary: of the levels asked for, only the default's is left".into();
                space.skipped.push(Skipped { factor: name, level: None, reason });
            }
        }
        space.exclude_pairs(&applies);
        space.add(extras);
        space
    }

    /// The default and these plans alone.
    #[must_use]
    pub fn of_plans(plans: Vec<Plan>) -> Self {
        let mut space = Self::default();
        space.add(plans);
        space
    }

    /// Adds plans of the user that the space does not have yet.
    fn add(&mut self, extras: Vec<Plan>) {
        for extra in extras {
            let known = extra == Plan::default() || self.extras.contains(&extra);
            if !known && !self.cells().any(|plan| plan == extra) {
                self.extras.push(extra);
            }
        }
    }

    /// Excludes cells with two levels of which each can be applied, but not both: for example an
    /// allocator without a switch for huge pages where the machine's setting may not be changed.
    fn exclude_pairs(&mut self, applies: impl Fn(&Plan) -> Result<(), String>) {
        for (f, first) in self.factors.iter().enumerate() {
            for (s, second) in self.factors.iter().enumerate().skip(f + 1) {
                for (j, level) in second.levels.iter().enumerate().skip(1) {
                    let mut refused = Vec::new();
                    for (i, other) in first.levels.iter().enumerate().skip(1) {
                        let mut plan = Plan::default();
                        other.apply(&mut plan);
                        level.apply(&mut plan);
                        if let Err(reason) = applies(&plan) {
                            self.excluded.push([(f, i), (s, j)]);
                            refused.push((other.name(), reason));
                        }
                    }
                    self.skipped.extend(grouped(refused).into_iter().map(|(others, reason)| {
                        let (level, with) = (level.name(), first.name.name());
                        let level = Some(format!("{level} with {with} {}", others.join(", ")));
                        Skipped { factor: second.name, level, reason }
                    }));
                }
            }
        }
    }

    /// The shape of the space.
    #[must_use]
    pub fn shape(&self) -> Shape {
        Shape {
            levels: self.factors.iter().map(|f| f.levels.len()).collect(),
            extras: self.extras.len(),
            machine_wide: self.machine_wide(),
            excluded: self.excluded.clone(),
        }
    }

    /// Levels that may change a setting of the whole machine, as (factor, level).
    fn machine_wide(&self) -> Vec<(usize, usize)> {
        let mut wide = Vec::new();
        for (f, factor) in self.factors.iter().enumerate() {
            let is_wide = |(_, level): &(usize, &Level)| level.may_be_machine_wide();
            wide.extend(factor.levels.iter().enumerate().filter(is_wide).map(|(l, _)| (f, l)));
        }
        wide
    }

    /// Whether a plan has two levels that cannot be applied together.
    #[must_use]
    pub fn excludes(&self, plan: &Plan) -> bool {
        let has = |(factor, level): (usize, usize)| {
            let level = self.factors.get(factor).and_then(|factor| factor.levels.get(level));
            level.is_some_and(|level| level.is_in(plan))
        };
        self.excluded.iter().any(|pair| pair.iter().all(|at| has(*at)))
    }

    /// The plan of a candidate.
    #[must_use]
    pub fn plan(&self, candidate: Candidate) -> Plan {
        let shape = self.shape();
        let Some(point) = shape.coordinates(candidate) else {
            let index = (candidate.0 as usize).saturating_sub(shape.cells());
            return self.extras.get(index).cloned().unwrap_or_default();
        };
        let mut plan = Plan::default();
        for (factor, level) in self.factors.iter().zip(point) {
            factor.levels[level].apply(&mut plan);
        }
        plan
    }

    fn cells(&self) -> impl Iterator<Item = Plan> {
        let shape = Shape { extras: 0, ..self.shape() };
        let cells: Vec<Candidate> = shape.candidates().collect();
        cells.into_iter().map(|cell| self.plan(cell))
    }
}

/// Levels that cannot be applied, grouped by reason. If no level is left, they become the whole
/// factor.
fn by_reason(factor: FactorName, refused: Vec<(String, String)>, all: bool) -> Vec<Skipped> {
    let reasons = grouped(refused);
    let is_whole = all && reasons.len() == 1;
    let skipped = |(levels, reason): (Vec<String>, String)| Skipped {
        factor,
        level: (!is_whole || levels.len() == 1).then(|| levels.join(", ")),
        reason,
    };
    reasons.into_iter().map(skipped).collect()
}

/// Names that were refused, grouped by reason.
fn grouped(refused: Vec<(String, String)>) -> Vec<(Vec<String>, String)> {
    let mut reasons: Vec<(Vec<String>, String)> = Vec::new();
    for (name, reason) in refused {
        match reasons.iter_mut().find(|(_, known)| *known == reason) {
            Some((names, _)) => names.push(name),
            None => reasons.push((vec![name], reason)),
        }
    }
    reasons
}

#[cfg(test)]
mod tests;
