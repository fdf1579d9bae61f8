//! The plans that the user adds with `--plan`.

use std::path::PathBuf;

use anyhow::Context;
use numapilot_cli_kit::plan_args::load_profile;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_place::Plan;

/// Loads the profiles. `applies` fails for a plan that cannot be applied, which ends the search
/// before it begins.
pub fn added_plans(
    terminal: &Terminal,
    profiles: &[PathBuf],
    applies: impl Fn(&Plan) -> Result<(), String>,
) -> anyhow::Result<Vec<Plan>> {
    let load = |path: &PathBuf| {
        let plan = load_profile(terminal, path, false)?;
        applies(&plan)
            .map_err(anyhow::Error::msg)
            .with_context(|| format!("--plan {}", path.display()))?;
        Ok(plan)
    };
    profiles.iter().map(load).collect()
}
