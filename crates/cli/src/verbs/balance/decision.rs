//! The options of the decision.

use anyhow::bail;
use clap::ValueEnum;
use numapilot_balance::Setup;
use numapilot_balance::adaptive::Settings;
use numapilot_balance::paper::Spread;
use numapilot_cli_kit::units;

/// The two modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Move a page where it saves more than it costs; undo moves that do not help.
    Default,
    /// Carrefour as published.
    Paper,
}

/// The rule for interleaved pages, in paper mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Rule {
    /// The rule of the published source code.
    Source,
    /// The rule of the paper's text.
    Text,
}

/// Options of the decision.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Decision {
    /// How to decide.
    #[arg(long, value_enum, default_value_t = Mode::Default)]
    mode: Mode,

    /// In paper mode: the rule for the node of an interleaved page, from the published source
    /// code (linear complement of a node's load) or from the paper's text (its inverse).
    ///
    /// [default: source]
    #[arg(long, value_enum)]
    spread: Option<Rule>,

    /// In paper mode: the seed of random choices [default: 1].
    #[arg(long)]
    seed: Option<u64>,

    /// In default mode: the most memory to move per second [default: 128M].
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    budget: Option<u64>,
}

impl Decision {
    /// The mode with its settings.
    ///
    /// # Errors
    /// An option of the other mode was given, which would have no effect.
    pub fn setup(self) -> anyhow::Result<Setup> {
        match self {
            Self { mode: Mode::Paper, budget: Some(_), .. } => {
                bail!("--budget is an option of default mode; leave it out, or --mode paper")
            }
            Self { mode: Mode::Default, spread: Some(_), .. } => {
                bail!("--spread is an option of paper mode; give --mode paper as well")
            }
            Self { mode: Mode::Default, seed: Some(_), .. } => {
                bail!("--seed is an option of paper mode; give --mode paper as well")
            }
            Self { mode: Mode::Paper, spread, seed, .. } => Ok(Setup::Paper {
                spread: match spread.unwrap_or(Rule::Source) {
                    Rule::Source => Spread::Complement,
                    Rule::Text => Spread::Inverse,
                },
                seed: seed.unwrap_or(1),
            }),
            Self { mode: Mode::Default, budget, .. } => {
                let default = Settings::default();
                let bytes_per_second = budget.unwrap_or(default.bytes_per_second);
                Ok(Setup::Default(Settings { bytes_per_second, ..default }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        decision: Decision,
    }

    fn setup(options: &[&str]) -> Setup {
        Line::parse_from([&["balance"], options].concat()).decision.setup().unwrap()
    }

    #[test]
    fn the_spread_is_the_rule_of_paper_mode() {
        let paper = |spread, seed| Setup::Paper { spread, seed };
        let spread = |rule| setup(&["--mode", "paper", "--spread", rule]);
        assert_eq!(setup(&["--mode", "paper"]), paper(Spread::Complement, 1));
        assert_eq!(spread("source"), paper(Spread::Complement, 1));
        assert_eq!(spread("text"), paper(Spread::Inverse, 1));
        assert_eq!(setup(&["--mode", "paper", "--seed", "7"]), paper(Spread::Complement, 7));
    }

    #[test]
    fn options_of_the_other_mode_are_refused() {
        for (options, expected) in [
            (&["--spread", "text"][..], "--spread"),
            (&["--seed", "1"], "--seed"),
            (&["--mode", "paper", "--budget", "128M"], "--budget"),
        ] {
            let line = Line::parse_from([&["balance"], options].concat());
            let error = line.decision.setup().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn the_budget_is_the_rate_of_default_mode() {
        let rate = |options: &[&str]| match setup(options) {
            Setup::Default(settings) => settings.bytes_per_second,
            paper @ Setup::Paper { .. } => panic!("{paper:?}"),
        };
        assert_eq!(rate(&[]), 128 << 20);
        assert_eq!(rate(&["--budget", "3M"]), 3 << 20);
    }
}
