//! What a rule says about one factor.

use numapilot_tune::space::{FactorName, Level};
use serde::{Serialize, Serializer};

/// A factor: one that `tune` varies, or the number of cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Factor {
    /// A factor of plans.
    Plan(FactorName),
    /// The number of cores while the program runs (`numapilot cores`).
    Cores,
}

impl Factor {
    /// Its name in text and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plan(factor) => factor.name(),
            Self::Cores => "cores",
        }
    }
}

impl Serialize for Factor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Whether a factor can matter for the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It can.
    CanMatter,
    /// It cannot by more than [`crate::AT_LEAST`].
    CannotMatter,
    /// What decides was not measured.
    Unknown,
    /// It cannot be varied here.
    NotVaried,
}

impl Verdict {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::CanMatter => "can matter",
            Self::CannotMatter => "cannot matter",
            Self::Unknown => "unknown",
            Self::NotVaried => "not varied",
        }
    }
}

/// The most that a factor can save.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// Share of CPU time.
    pub cpu_share: f64,
    /// Share of wall time, if all that is saved is on the critical path.
    pub wall_share: f64,
    /// Whether it follows from the machine or from what was counted, without an assumption about
    /// the program.
    pub is_certain: bool,
}

impl Bound {
    /// The bound of a factor that changes nothing.
    pub const NOTHING: Self = Self { cpu_share: 0.0, wall_share: 0.0, is_certain: true };

    /// This share of CPU time, with this many CPUs busy.
    #[must_use]
    pub fn of(cpu_share: f64, concurrency: f64) -> Self {
        let cpu_share = cpu_share.clamp(0.0, 1.0);
        Self { cpu_share, wall_share: (cpu_share * concurrency).min(1.0), is_certain: false }
    }
}

/// A figure on which a finding rests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its name; that of `stat --json` where there is one.
    pub name: &'static str,
    /// Its value: a ratio, or in seconds, bytes or counts.
    pub value: f64,
}

/// What may be expected of a level.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// The level.
    pub level: Level,
    /// Expected time as a ratio to that of the default.
    pub ratio: f64,
    /// Standard deviation of the logarithm of the ratio; 0 if the ratio is certain.
    pub deviation: f64,
}

/// Standard deviation of the logarithm of the ratio of a level about which nothing is known. It is
/// assumed: two of them are a factor of 2.
pub const IGNORANCE: f64 = 0.35;
/// The same for a level that is expected to make no difference.
pub const LITTLE: f64 = 0.01;

/// What a rule says about one factor.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The factor.
    pub factor: Factor,
    /// Whether it can matter.
    pub verdict: Verdict,
    /// The most that it can save; `None` if no bound is known.
    pub bound: Option<Bound>,
    /// Why, in one or more sentences.
    pub because: String,
    /// What the verdict leaves open; empty if it is certain.
    pub uncertainty: String,
    /// The figures on which it rests.
    pub figures: Vec<Figure>,
    /// Where the rule is from.
    pub source: &'static str,
    /// The level to try first.
    pub first: Option<Level>,
    /// What may be expected of each level.
    pub levels: Vec<Expectation>,
}

impl Finding {
    /// A finding without figures.
    #[must_use]
    pub fn new(
        factor: Factor,
        verdict: Verdict,
        because: impl Into<String>,
        source: &'static str,
    ) -> Self {
        Self {
            factor,
            verdict,
            bound: None,
            because: because.into(),
            uncertainty: String::new(),
            figures: Vec::new(),
            source,
            first: None,
            levels: Vec::new(),
        }
    }

    /// A finding for a factor that cannot be varied here.
    #[must_use]
    pub fn not_varied(factor: Factor, reason: String, source: &'static str) -> Self {
        Self::new(factor, Verdict::NotVaried, reason, source)
    }

    /// A finding for a factor whose levels are all the same here.
    #[must_use]
    pub fn nothing(factor: Factor, because: impl Into<String>, source: &'static str) -> Self {
        let new = Self::new(factor, Verdict::CannotMatter, because, source);
        Self { bound: Some(Bound::NOTHING), ..new }
    }

    /// Adds the bound.
    #[must_use]
    pub fn at_most(self, bound: Bound) -> Self {
        Self { bound: Some(bound), ..self }
    }

    /// Adds what it leaves open.
    #[must_use]
    pub fn but(self, uncertainty: impl Into<String>) -> Self {
        Self { uncertainty: uncertainty.into(), ..self }
    }

    /// Adds a figure, if it is known.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: Option<f64>) -> Self {
        self.figures.extend(value.map(|value| Figure { name, value }));
        self
    }

    /// Adds the level to try first, and what may be expected: of that level that it saves half of
    /// the bound, of the others nothing, and of none more than the bound with 95 % confidence.
    #[must_use]
    pub fn expecting(mut self, levels: &[Level], first: Option<&Level>) -> Self {
        let most = self.bound.map(|bound| bound.cpu_share);
        let deviation = match (self.verdict, self.bound, most) {
            (_, Some(bound), _) if bound.is_certain && bound.cpu_share == 0.0 => 0.0,
            (Verdict::CannotMatter, ..) => LITTLE,
            (_, _, Some(most)) => (-(1.0 - most).max(0.1).ln() / 2.0).clamp(LITTLE, IGNORANCE),
            _ => IGNORANCE,
        };
        let gain = most.unwrap_or(0.0).min(0.5) / 2.0;
        let expectation = |level: &Level| Expectation {
            level: level.clone(),
            ratio: if Some(level) == first { 1.0 - gain } else { 1.0 },
            deviation,
        };
        self.levels = levels.iter().map(expectation).collect();
        self.first = first.cloned();
        self
    }
}
