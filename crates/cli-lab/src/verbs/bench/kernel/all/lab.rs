//! Runs the kernels on an emulated machine, by starting this program in a lab.

use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, anyhow};
use numapilot_cli_kit::interruption;
use serde_json::Value;

use super::args::Args;
use super::series::End;
use crate::{child, programs};

/// Returns the results that the kernels in the guest printed.
pub fn outcomes(machine: &str, args: &Args) -> anyhow::Result<(Vec<Value>, End)> {
    let program = programs::numapilot_lab()?;
    // The lab's own figures are not needed, so they go to /dev/null. AutoNUMA is off: pages must
    // stay where a placement has put them.
    let lab = ["lab", "run", "--machine", machine, "--output", "/dev/null"];
    let settings = ["--numa-balancing", "off", "--"];
    let mut words: Vec<String> =
        [&lab[..], &settings].concat().into_iter().map(str::to_owned).collect();
    words.insert(2, args.time_scale_word());
    words.push(program.to_string_lossy().into_owned());
    words.extend(args.words(machine));
    let interrupted = interruption::flag()?;
    let (status, printed) = child::output(program, words, &interrupted)?;
    let end = match status.success() {
        true => End::Whole,
        false if interrupted.load(Relaxed) => return Ok((Vec::new(), End::Interrupted)),
        false => End::Failed(anyhow!("the kernels ended in the lab of {machine}: see above")),
    };
    match (serde_json::from_slice(&printed), end) {
        (Ok(outcomes), end) => Ok((outcomes, end)),
        (Err(_), End::Failed(why)) => Err(why),
        (Err(why), _) => {
            Err(why).with_context(|| format!("the lab of {machine} printed no results"))
        }
    }
}
