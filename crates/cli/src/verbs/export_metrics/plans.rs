//! The plans under which `numapilot run` has started processes.
//!
//! Source: proc_pid_environ(5). The environment is that with which a process has begun, and a program
//! may give any to its children, so the text is bounded.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::mem;

use numapilot_place::plan::NAME_VARIABLE;
use procfs::process::Process;

/// Most plans of a target that have their own time series.
const MOST: usize = 20;
/// Most characters of a plan.
const LONGEST: usize = 300;

/// A process that has executed one program: its ID, its start time, and its command.
type Key = (i32, u64, String);

/// The plan of a process, if it has one.
pub type Plan = Result<Option<String>, NotReadable>;

/// The environment of a process cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotReadable;

/// The plans of processes, each read once.
#[derive(Debug, Default)]
pub struct Plans {
    now: BTreeMap<Key, Plan>,
    before: BTreeMap<Key, Plan>,
}

impl Plans {
    /// Begins a new look at the processes. What has ended since the last one is forgotten.
    pub fn begin(&mut self) {
        self.before = mem::take(&mut self.now);
    }

    /// The plan of a process that began at `start` and has this command.
    pub fn of(&mut self, process: &Process, start: u64, command: &str) -> Plan {
        let key = (process.pid, start, command.to_owned());
        let plan = match self.before.remove(&key) {
            Some(known) => known,
            None => match process.environ() {
                // It is being executed at this moment, and has its environment later.
                Ok(environment) if environment.is_empty() => return Ok(None),
                environment => plan(environment.as_ref().ok()),
            },
        };
        self.now.insert(key, plan.clone());
        plan
    }
}

/// The plans with their commands, or that one of them is not known.
pub fn listed<'a>(
    plans: impl Iterator<Item = (&'a str, &'a Plan)>,
) -> Result<BTreeSet<(String, String)>, NotReadable> {
    let mut all = BTreeSet::new();
    for (command, plan) in plans {
        if let Some(plan) = plan.as_ref().map_err(|error| *error)? {
            all.insert((command.to_owned(), plan.clone()));
        }
    }
    Ok(all.into_iter().take(MOST).collect())
}

fn plan(environment: Option<&HashMap<OsString, OsString>>) -> Plan {
    let plan = environment.ok_or(NotReadable)?.get(OsStr::new(NAME_VARIABLE));
    Ok(plan.map(|plan| plan.to_string_lossy().chars().take(LONGEST).collect()))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_plan_is_that_of_the_environment() {
        let mut children: Vec<_> = [Some("thp never"), None]
            .into_iter()
            .map(|plan| {
                let mut command = Command::new("cat");
                command.envs(plan.map(|plan| (NAME_VARIABLE, plan))).stdin(Stdio::piped());
                command.spawn().unwrap()
            })
            .collect();
        let [with, without] =
            [0, 1].map(|at| Process::new(children[at].id().cast_signed()).unwrap());
        let mut plans = Plans::default();
        let named = Ok(Some("thp never".to_owned()));
        for _ in 0..2 {
            plans.begin();
            assert_eq!(plans.of(&with, 1, "cat"), named);
            assert_eq!(plans.of(&without, 1, "cat"), Ok(None));
        }
        let both = [("cat", &named), ("cat", &named), ("sh", &Ok(None))];
        let expected = BTreeSet::from([("cat".to_owned(), "thp never".to_owned())]);
        assert_eq!(listed(both.into_iter()), Ok(expected));
        assert_eq!(listed([("x", &Err(NotReadable))].into_iter()), Err(NotReadable));
        plans.begin();
        plans.begin();
        assert!(plans.before.is_empty());
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
