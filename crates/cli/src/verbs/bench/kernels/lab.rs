//! The kernels on an emulated machine: this program starts itself in a lab.

use std::process::{Command, Stdio};

use anyhow::{Context, anyhow};
use serde_json::Value;

use super::all::{Args, End};

/// What the kernels in the guest printed.
pub fn outcomes(machine: &str, args: &Args) -> anyhow::Result<(Vec<Value>, End)> {
    let numapilot = std::env::current_exe().context("cannot find numapilot's own file")?;
    let output = Command::new(&numapilot)
        // What the lab itself counts goes to a file, since it is not asked for.
        .args(["lab", "run", "--machine", machine, "--output", "/dev/null"])
        // Pages are to stay where a placement has put them.
        .args(["--numa-balancing", "off", "--"])
        .arg(&numapilot)
        .args(args.words(machine))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", numapilot.display()))?;
    let end = match output.status.success() {
        true => End::Whole,
        false => End::Failed(anyhow!("the kernels ended in the lab of {machine}: see above")),
    };
    match (serde_json::from_slice(&output.stdout), end) {
        (Ok(outcomes), end) => Ok((outcomes, end)),
        (Err(_), End::Failed(why)) => Err(why),
        (Err(why), _) => {
            Err(why).with_context(|| format!("the lab of {machine} printed no results"))
        }
    }
}
