//! The options of deciding and acting.

use anyhow::bail;
use clap::ValueEnum;
use numapilot_cli_kit::units;
use numapilot_cores::Settings;
use numapilot_cores::actuator::Way;
use numapilot_cores::decide::{Band, Controller, Paper, Thresholds};
use numapilot_cores::layout::Spread;

/// The ways to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// A band of utilisation, and no step without evidence that it helps.
    Default,
    /// As published: one core per tick.
    Paper,
    /// As default, with cores near the target's pages.
    Adaptive,
}

impl Mode {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Paper => "paper",
            Self::Adaptive => "adaptive",
        }
    }

    /// The mode's thresholds, replaced by those that the user gives (in percent).
    pub fn thresholds(
        self,
        idle: Option<f64>,
        overload: Option<f64>,
    ) -> anyhow::Result<Thresholds> {
        let own = match self {
            Self::Paper => Paper::THRESHOLDS,
            Self::Default | Self::Adaptive => Band::THRESHOLDS,
        };
        let thresholds = Thresholds {
            idle: idle.unwrap_or(own.idle),
            overload: overload.unwrap_or(own.overload),
        };
        if thresholds.idle >= thresholds.overload {
            bail!(
                "--thmin {:.0} is not below --thmax {:.0}: nothing would be stable between them",
                thresholds.idle * 100.0,
                thresholds.overload * 100.0
            );
        }
        Ok(thresholds)
    }

    /// The rule.
    pub fn controller(self, thresholds: Thresholds) -> Controller {
        match self {
            Self::Paper => Controller::Paper(Paper::new(thresholds)),
            Self::Default | Self::Adaptive => Controller::Band(Band::new(thresholds)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Placement {
    /// One core of each node in turn.
    Sparse,
    /// One node after the other.
    Dense,
    /// Near the target's pages.
    Adaptive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Actuator {
    /// The first of the others that works.
    Auto,
    /// The cpuset controller of cgroup v2.
    CgroupV2,
    /// The cpuset hierarchy of cgroup v1.
    CgroupV1,
    /// The affinity of every thread.
    Affinity,
}

/// Options of the decision.
#[derive(Clone, Debug, clap::Args)]
pub struct Decision {
    /// How to decide how many cores.
    #[arg(long, value_enum, default_value_t = Mode::Default)]
    pub mode: Mode,

    /// Which cores; by default dense, in adaptive mode adaptive.
    #[arg(long, value_enum)]
    placement: Option<Placement>,

    /// Utilisation in percent at which cores are taken back; by default 45, in paper mode 10.
    #[arg(long, value_name = "PERCENT", value_parser = units::percent)]
    thmin: Option<f64>,

    /// Utilisation in percent at which cores are given; by default 70.
    #[arg(long, value_name = "PERCENT", value_parser = units::percent)]
    thmax: Option<f64>,

    /// Fewest cores of a target.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = units::whole::<u32>(1..))]
    min: u32,

    /// Most cores of a target; by default all that it may use.
    #[arg(long, value_name = "N", value_parser = units::whole::<u32>(1..))]
    max: Option<u32>,

    /// How to hold a target on its cores.
    #[arg(long, value_enum, default_value_t = Actuator::Auto)]
    actuator: Actuator,
}

impl Decision {
    pub fn thresholds(&self) -> anyhow::Result<Thresholds> {
        self.mode.thresholds(self.thmin, self.thmax)
    }

    /// The fewest and most cores on a machine with `all` cores.
    pub fn limits(&self, all: u32) -> (u32, u32) {
        (self.min, self.max.unwrap_or(all).min(all))
    }

    pub fn settings(&self, dry_run: bool) -> anyhow::Result<Settings> {
        if self.max.is_some_and(|max| max < self.min) {
            bail!("--max is below --min ({}); raise --max or lower --min", self.min);
        }
        let spread = match (self.placement, self.mode) {
            (Some(Placement::Sparse), _) => Spread::Sparse,
            (Some(Placement::Adaptive), _) | (None, Mode::Adaptive) => Spread::Adaptive,
            _ => Spread::Dense,
        };
        let way = match self.actuator {
            Actuator::Auto => None,
            Actuator::CgroupV2 => Some(Way::CgroupV2),
            Actuator::CgroupV1 => Some(Way::CgroupV1),
            Actuator::Affinity => Some(Way::Affinity),
        };
        Ok(Settings {
            controller: self.mode.controller(self.thresholds()?),
            spread,
            minimum: self.min,
            maximum: self.max,
            way,
            dry_run,
        })
    }
}
