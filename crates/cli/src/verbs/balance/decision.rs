//! The options of the decision.

use clap::ValueEnum;
use numapilot_balance::Setup;
use numapilot_balance::adaptive::Settings;
use numapilot_balance::paper::Spread;
use numapilot_cli_kit::units;

/// The two modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// The improved rules.
    Default,
    /// Carrefour as published.
    Paper,
}

/// The rule for interleaved pages, in paper mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Rule {
    /// The rule of the published source.
    Source,
    /// The rule of the text.
    Text,
}

/// Options of the decision.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Decision {
    /// How to decide.
    #[arg(long, value_enum, default_value_t = Mode::Default)]
    mode: Mode,

    /// In paper mode: the rule for the node of an interleaved page, from the published source
    /// (linear complement of a node's load) or from the text (its inverse).
    #[arg(long, value_enum, default_value_t = Rule::Source)]
    spread: Rule,

    /// In paper mode: the seed of random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// In default mode: the most memory to move per second.
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = units::size)]
    budget: u64,
}

impl Decision {
    pub fn setup(self) -> Setup {
        match self.mode {
            Mode::Paper => Setup::Paper {
                spread: match self.spread {
                    Rule::Source => Spread::Complement,
                    Rule::Text => Spread::Inverse,
                },
                seed: self.seed,
            },
            Mode::Default => {
                Setup::Default(Settings { bytes_per_second: self.budget, ..Settings::default() })
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
        Line::parse_from([&["balance"], options].concat()).decision.setup()
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
    fn the_budget_is_the_rate_of_default_mode() {
        let rate = |options: &[&str]| match setup(options) {
            Setup::Default(settings) => settings.bytes_per_second,
            paper @ Setup::Paper { .. } => panic!("{paper:?}"),
        };
        assert_eq!(rate(&[]), 128 << 20);
        assert_eq!(rate(&["--budget", "3M"]), 3 << 20);
    }
}
