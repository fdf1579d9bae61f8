//! What one observed run lets expect of levels: a result of `numapilot advise --json`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, anyhow};
use numapilot_place::Plan;
use numapilot_tune::decide::Expectation;
use numapilot_tune::decide::prior::Levels;
use numapilot_tune::evidence::{Order, Phase, Trial};
use numapilot_tune::run::RunError;
use numapilot_tune::shape::DEFAULT;
use numapilot_tune::space::{self, FactorName, Space};
use serde::Deserialize;
use tempfile::TempPath;

use crate::verbs::tune::setup::Setup;

/// A result of `numapilot advise --json`: the part that is read.
#[derive(Deserialize)]
pub struct Advice {
    /// The command that was observed; `None` for a process.
    #[serde(default)]
    command: Option<Vec<String>>,
    factors: Vec<Factor>,
}

/// Ratios that a run lets expect.
const RATIOS: RangeInclusive<f64> = 0.001..=1000.0;

#[derive(Deserialize)]
struct Factor {
    factor: String,
    verdict: String,
    levels: Vec<Level>,
}

#[derive(Deserialize)]
struct Level {
    level: String,
    ratio: f64,
    deviation: f64,
}

impl Advice {
    /// Reads the file of `--advice`.
    ///
    /// # Errors
    /// It cannot be read, is no such object, or has a ratio that no run lets expect.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let what = || {
            format!("--advice {}: it must be a result of numapilot advise --json", path.display())
        };
        let text = fs::read_to_string(path).with_context(what)?;
        let advice: Self = serde_json::from_str(&text).with_context(what)?;
        for factor in &advice.factors {
            for Level { level, ratio, deviation } in &factor.levels {
                let is_impossible = *deviation <= 0.0 || !deviation.is_finite();
                if is_impossible || !RATIOS.contains(ratio) {
                    let name = &factor.factor;
                    let bad = anyhow!("{name} {level} has ratio {ratio}, deviation {deviation}");
                    return Err(bad.context(what()));
                }
            }
        }
        Ok(advice)
    }

    /// What it lets expect of the levels of the space.
    pub fn levels(&self, space: &Space) -> Levels {
        space.factors.iter().map(|factor| of_factor(self, factor)).collect()
    }

    /// Whether a level of the space is in it, whatever it lets expect.
    pub fn concerns(&self, space: &Space) -> bool {
        let is_in = |factor: &space::Factor| {
            let found = self.factor(factor.name);
            found
                .is_some_and(|found| factor.levels.iter().any(|level| found.level(level).is_some()))
        };
        space.factors.iter().any(is_in)
    }

    fn factor(&self, name: FactorName) -> Option<&Factor> {
        self.factors.iter().find(|factor| factor.factor == name.name())
    }

    /// The command that was observed, if it is not this one.
    pub fn other_command(&self, command: &[OsString]) -> Option<String> {
        let observed = self.command.as_ref()?;
        let is_same = observed.iter().map(OsStr::new).eq(command.iter().map(OsString::as_os_str));
        (!is_same).then(|| observed.join(" "))
    }
}

impl Factor {
    fn level(&self, level: &space::Level) -> Option<&Level> {
        self.levels.iter().find(|known| known.level == level.name())
    }
}

fn of_factor(advice: &Advice, factor: &space::Factor) -> Vec<Option<Expectation>> {
    // An unknown verdict expects nothing.
    let found = advice.factor(factor.name).filter(|found| found.verdict != "unknown");
    let of = |level: &space::Level| {
        let known = found?.level(level)?;
        Some(Expectation { cost: known.ratio.ln(), deviation: known.deviation })
    };
    factor.levels.iter().map(of).collect()
}

/// Observes a run of the default, within the time of the whole search. Returns the run, and the file
/// with what it says, if it says anything. `None` if the user has interrupted it.
///
/// # Errors
/// The run could not be made.
pub fn observe(
    setup: &Setup,
    interrupted: &AtomicBool,
) -> anyhow::Result<Option<(Trial, Option<TempPath>)>> {
    // Behind numapilot, a missing program would look like one that fails.
    setup.check_program()?;
    let path = tempfile::NamedTempFile::new().context("a file for the advice")?.into_temp_path();
    let own = std::env::current_exe().context("the path of numapilot itself")?;
    let words = [own.as_os_str(), "advise".as_ref(), "--json".as_ref(), "-o".as_ref()];
    let words = words.into_iter().chain([path.as_os_str(), "--".as_ref()]).map(ToOwned::to_owned);
    let mut runner = setup.observer(words, interrupted);
    let limit =
        setup.settings.max_seconds.and_then(|limit| Duration::try_from_secs_f64(limit).ok());
    runner.learn(&[], limit);
    let order = Order { phase: Phase::WarmUp, block: 0, candidate: DEFAULT };
    let trial = match runner.run(order, &Plan::default()) {
        Ok(trial) => trial,
        Err(RunError::Interrupted) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let has_advice = fs::metadata(&path).is_ok_and(|file| file.len() > 0);
    Ok(Some((trial, has_advice.then_some(path))))
}

#[cfg(test)]
mod tests {
    use numapilot_place::{AllocatorChoice, Thp};
    use numapilot_tune::space::Level;

    use super::*;

    #[test]
    fn levels_are_found_by_name_and_unknown_ones_expect_nothing() {
        let named = |name: &str| Level::Allocator(AllocatorChoice::Named(name.to_owned()));
        let allocators = vec![Level::neutral(FactorName::Allocator), named("a"), named("b")];
        let thp = vec![Level::Thp(Thp::Inherit), Level::Thp(Thp::Never)];
        let factor = |name, levels| space::Factor { name, levels };
        let space = Space {
            factors: vec![factor(FactorName::Allocator, allocators), factor(FactorName::Thp, thp)],
            ..Space::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("advice.json");
        let text = r#"{"plan": "a", "factors": [
            {"factor": "allocator", "verdict": "can-matter",
             "levels": [{"level": "b", "ratio": 0.5, "deviation": 0.1}]},
            {"factor": "thp", "verdict": "unknown",
             "levels": [{"level": "never", "ratio": 1.0, "deviation": 0.35}]}]}"#;
        fs::write(&path, text).unwrap();
        let advice = Advice::read(&path).unwrap();
        let found = advice.levels(&space);
        let half = Expectation { cost: 0.5_f64.ln(), deviation: 0.1 };
        assert_eq!(found, [vec![None, None, Some(half)], vec![None, None]]);
        assert!(advice.concerns(&space) && !advice.concerns(&Space::default()));
        for (bad, why) in [
            ("{}".to_owned(), "missing field"),
            (text.replace("0.5", "-1"), "allocator b has ratio -1, deviation 0.1"),
            (text.replace("0.35", "0.0"), "thp never has ratio 1, deviation 0"),
        ] {
            fs::write(&path, bad).unwrap();
            let error = format!("{:#}", Advice::read(&path).err().unwrap());
            assert!(error.contains("numapilot advise --json") && error.contains(why), "{error}");
        }
    }

    #[test]
    fn advice_on_another_command_is_recognised() {
        let of = |text: &str| serde_json::from_str::<Advice>(text).unwrap();
        let command = ["app", "-x"].map(OsString::from);
        assert_eq!(
            of(r#"{"factors": [], "command": ["app", "-x"]}"#).other_command(&command),
            None
        );
        let other = of(r#"{"factors": [], "command": ["app", "-y"]}"#);
        assert_eq!(other.other_command(&command).as_deref(), Some("app -y"));
        assert_eq!(of(r#"{"factors": []}"#).other_command(&command), None);
    }
}
