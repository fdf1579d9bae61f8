//! Whether what the far ends of a run attest is enough: the plan took effect on all of them, and none
//! is missing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use thiserror::Error;

use super::attestation::Attestation;
use super::task::Task;
use crate::Plan;
use crate::effect::State;

/// Why a run does not count.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Missing {
    /// No far end has attested anything.
    #[error(
        "no attestation: {} did not begin on the other side while the launcher ran, or the directory \
         of --attest is not shared with it; install numapilot there under this path, for that \
         machine's architecture, let the launcher wait for the program, or give --attest DIR", program.display()
    )]
    Nothing {
        /// The file of numapilot.
        program: PathBuf,
    },
    /// A far end could not run the program. It has said so itself.
    #[error("{0}")]
    NotRun(String),
    /// A far end attests something else, or nothing but that it began, or another number of them has.
    #[error("{0}")]
    Other(String),
}

/// What is known about the far ends before they attest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Expected {
    /// How many there are in one run, if the user or the template says it.
    pub count: Option<u32>,
    /// The task that numapilot itself is here. A far end that is the same one inherited that from
    /// here, and the launcher told it nothing.
    pub here: Option<Task>,
}

/// Checks that all far ends of so many runs ran this plan, that no setting was without effect, and
/// that no far end is missing.
pub(super) fn judge(
    plan: &Plan,
    attestations: &[Attestation],
    expected: &Expected,
    runs: usize,
) -> Result<(), Missing> {
    let plan = plan.to_string();
    let version = env!("CARGO_PKG_VERSION");
    for attestation in attestations {
        let text = |reason: String| format!("{}: {reason}", attestation.place());
        let other = |reason| Err(Missing::Other(text(reason)));
        if attestation.version != version {
            return other(format!(
                "numapilot is version {} there and {version} here; install the same one",
                attestation.version
            ));
        }
        if attestation.plan != plan {
            return other(format!("the plan was '{}', not '{plan}'", attestation.plan));
        }
        let Some(settings) = &attestation.settings else {
            return other("numapilot run was ended before it could attest what took effect".into());
        };
        if let Some(without) = settings.iter().find(|s| s.state == State::NotInEffect) {
            if without.is_of_failed_run() {
                return Err(Missing::NotRun(text(without.to_string())));
            }
            return other(without.to_string());
        }
    }
    match expected.count {
        Some(count) => count_all(attestations.len(), count as usize * runs),
        None => count_steps(attestations, expected.here.as_ref()),
    }
}

fn count_all(attested: usize, expected: usize) -> Result<(), Missing> {
    if attested == expected {
        return Ok(());
    }
    Err(Missing::Other(format!(
        "{attested} of {expected} far ends attested what took effect; see what the launcher printed, \
         or give their number by --via-count"
    )))
}

/// Each step must have as many attestations as the launcher told its tasks.
fn count_steps(attestations: &[Attestation], here: Option<&Task>) -> Result<(), Missing> {
    let mut steps: BTreeMap<&str, Vec<&Task>> = BTreeMap::new();
    for task in attestations.iter().filter_map(|attestation| attestation.task.as_ref()) {
        if here.is_none_or(|here| here.step != task.step) {
            steps.entry(&task.step).or_default().push(task);
        }
    }
    for (step, tasks) in steps {
        let expected = tasks.iter().map(|task| task.tasks).max().unwrap_or_default();
        if tasks.len() == expected as usize {
            continue;
        }
        let is_missing = |rank: &u32| tasks.iter().all(|task| task.rank != *rank);
        let missing: Vec<String> =
            (0..expected).filter(is_missing).take(10).map(|rank| rank.to_string()).collect();
        let which = match missing.join(", ") {
            missing if missing.is_empty() => String::new(),
            missing => format!("; missing: {missing}"),
        };
        return Err(Missing::Other(format!(
            "{} of {expected} tasks of {step} attested what took effect{which}; see what the \
             launcher printed, or give the number of far ends by --via-count",
            tasks.len()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::Outcome;
    use crate::{Note, Thp};

    fn plan() -> Plan {
        Plan { thp: Thp::Never, ..Plan::default() }
    }

    fn attested(task: Option<(&str, u32, u32)>) -> Attestation {
        Attestation {
            host: "h".to_owned(),
            process: 7,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            task: task.map(|(step, rank, tasks)| Task { step: step.to_owned(), rank, tasks }),
            topology: None,
            plan: plan().to_string(),
            settings: Some(Vec::new()),
        }
    }

    fn reason(attestations: &[Attestation], expected: &Expected) -> String {
        judge(&plan(), attestations, expected, 1).unwrap_err().to_string()
    }

    #[test]
    fn each_far_end_must_attest_this_plan_in_effect() {
        let none = Expected::default();
        let good = attested(None);
        assert_eq!(judge(&plan(), std::slice::from_ref(&good), &none, 1), Ok(()));
        let with = |change: &dyn Fn(&mut Attestation)| {
            let mut wrong = good.clone();
            change(&mut wrong);
            reason(&[good.clone(), wrong], &none)
        };
        let text = with(&|a| a.settings = None);
        assert!(text.starts_with("h, process 7: ") && text.contains("ended before"), "{text}");
        let text = with(&|a| a.plan = "default".to_owned());
        assert!(text.contains("the plan was 'default', not 'thp never'"), "{text}");
        let text = with(&|a| a.version = "0.0.1".to_owned());
        assert!(text.contains("version 0.0.1 there"), "{text}");
        let note = Note::new("thp never", "refused", "allow it");
        let text = with(&|a| a.settings = Some(vec![note.clone().into()]));
        assert!(text.ends_with("thp never: not in effect: refused; allow it"), "{text}");
        let mut failed = good.clone();
        failed.settings = Some(vec![Outcome::failed("x: not found".into())]);
        let judged = judge(&plan(), &[failed], &none, 1);
        assert!(matches!(judged, Err(Missing::NotRun(_))), "{judged:?}");
    }

    #[test]
    fn a_given_number_counts_for_every_run() {
        let expected = Expected { count: Some(2), here: None };
        let all = |count: usize| vec![attested(Some(("Slurm 1.0", 0, 9))); count];
        assert_eq!(judge(&plan(), &all(2), &expected, 1), Ok(()));
        assert_eq!(judge(&plan(), &all(4), &expected, 2), Ok(()));
        let text = reason(&all(1), &expected);
        assert!(text.starts_with("1 of 2 far ends attested"), "{text}");
        assert!(reason(&all(3), &expected).starts_with("3 of 2"));
    }

    #[test]
    fn a_launcher_says_how_many_tasks_a_step_has() {
        let none = Expected::default();
        let both = [attested(Some(("a", 0, 2))), attested(Some(("a", 1, 2)))];
        assert_eq!(judge(&plan(), &both, &none, 1), Ok(()));
        let text = reason(&both[..1], &none);
        assert!(
            text.starts_with("1 of 2 tasks of a attested what took effect; missing: 1;"),
            "{text}"
        );
        let twice = [both[0].clone(), both[1].clone(), both[0].clone()];
        assert!(reason(&twice, &none).starts_with("3 of 2 tasks of a attested what took effect;"));
        let two_steps = [&both[..], &[attested(Some(("b", 0, 1)))]].concat();
        assert_eq!(judge(&plan(), &two_steps, &none, 1), Ok(()));
        // The far end inherited what was told this process.
        let here = Expected { here: both[0].task.clone(), count: None };
        assert_eq!(judge(&plan(), &both[..1], &here, 1), Ok(()));
    }
}
