//! The plans under which `numapilot run` has started processes.
//!
//! Source: proc_pid_environ(5). A process can let its environment be anywhere in its memory
//! (PR_SET_MM), so only so much of it is read.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, ErrorKind, Read};

use numapilot_place::plan::NAME_VARIABLE;
use procfs::ProcError;
use procfs::process::Process;

/// Most pairs of a command and a plan of a target that have their own time series.
const MOST: usize = 100;
/// The name of what is beyond a limit.
pub const OTHERS: &str = "(others)";
/// Most characters of a plan.
const LONGEST: usize = 300;
/// Most bytes of an environment. The kernel gives a program as much for its arguments and environment
/// together, with a stack of the usual 8 MiB.
const MOST_BYTES: u64 = 2 << 20;

/// The plan of a process, if it has one.
pub type Plan = Result<Option<String>, NotReadable>;

/// The environment of a process cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotReadable;

/// The plan in the environment with which a process has begun. Of a process whose first thread has
/// ended, another one is asked.
pub fn plan(process: &Process, tids: &[i32]) -> Plan {
    let of_threads = tids.iter().take(2).map(|tid| format!("task/{tid}/environ"));
    for path in std::iter::once("environ".to_owned()).chain(of_threads) {
        let environment = match process.open_relative(&path) {
            Ok(environment) => environment,
            Err(ProcError::PermissionDenied(_)) => return Err(NotReadable),
            // It has ended, or has no memory any more.
            Err(_) => continue,
        };
        match find(BufReader::new(environment.take(MOST_BYTES))) {
            Ok(plan) => return Ok(plan),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Err(NotReadable),
            Err(_) => {}
        }
    }
    Ok(None)
}

/// The value of the first entry with that name, as getenv(3) finds it.
fn find(mut environment: impl BufRead) -> std::io::Result<Option<String>> {
    let mut entry = Vec::new();
    while environment.read_until(0, &mut entry)? > 0 {
        let value = entry.strip_prefix(NAME_VARIABLE.as_bytes());
        if let Some(value) = value.and_then(|rest| rest.strip_prefix(b"=")) {
            let value = String::from_utf8_lossy(value);
            return Ok(Some(value.trim_end_matches('\0').chars().take(LONGEST).collect()));
        }
        entry.clear();
    }
    Ok(None)
}

/// The plans with their commands, each once.
pub fn listed<'a>(plans: impl Iterator<Item = (&'a str, &'a Plan)>) -> BTreeSet<(String, String)> {
    let known = plans.filter_map(|(command, plan)| Some((command, plan.as_ref().ok()?.as_ref()?)));
    let mut all: BTreeSet<_> =
        known.map(|(command, plan)| (command.to_owned(), plan.to_owned())).collect();
    if all.len() > MOST {
        all = all.into_iter().take(MOST - 1).collect();
        all.insert((OTHERS.to_owned(), OTHERS.to_owned()));
    }
    all
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    #[test]
    fn a_plan_is_that_of_the_environment() {
        let start = |plan: Option<&str>| {
            let mut command = Command::new("cat");
            command.envs(plan.map(|plan| (NAME_VARIABLE, plan))).stdin(Stdio::piped());
            command.spawn().unwrap()
        };
        let seen = |child: &Child| {
            let pid = child.id().cast_signed();
            plan(&Process::new(pid).unwrap(), &[pid])
        };
        let (mut with, mut without) = (start(Some("thp never")), start(None));
        assert_eq!(seen(&with), Ok(Some("thp never".to_owned())));
        assert_eq!(seen(&without), Ok(None));
        without.kill().unwrap();
        // Until it is waited for, it is a process without memory.
        numapilot_test_kit::wait_until("it does not end", || {
            let stat = Process::new(without.id().cast_signed()).unwrap().stat().unwrap();
            stat.state == 'Z'
        });
        assert_eq!(seen(&without), Ok(None));
        with.kill().unwrap();
        for child in [&mut with, &mut without] {
            child.wait().unwrap();
        }
    }

    #[test]
    fn the_first_entry_counts_and_its_length_is_bounded() {
        let found = |text: &[u8]| find(text).unwrap();
        let text = b"A=1\0NUMAPILOT_PLANS=x\0NUMAPILOT_PLAN=a\0NUMAPILOT_PLAN=b\0";
        assert_eq!(found(text).as_deref(), Some("a"));
        assert_eq!(found(b"NUMAPILOT_PLAN=a").as_deref(), Some("a"));
        assert_eq!(found(b"A=NUMAPILOT_PLAN=a\0"), None);
        assert_eq!(found(b""), None);
        let long = format!("NUMAPILOT_PLAN={}\0", "x".repeat(1000));
        assert_eq!(found(long.as_bytes()).map(|plan| plan.len()), Some(LONGEST));
    }

    #[test]
    fn what_is_beyond_the_limit_is_named() {
        let plan: Plan = Ok(Some("p".to_owned()));
        let names: Vec<String> = (0..MOST + 5).map(|number| format!("{number:03}")).collect();
        let pairs = || names.iter().map(|name| (name.as_str(), &plan));
        assert_eq!(listed(pairs().take(MOST)).len(), MOST);
        let all = listed(pairs().chain([("denied", &Err(NotReadable)), ("none", &Ok(None))]));
        let others = (OTHERS.to_owned(), OTHERS.to_owned());
        assert!(all.len() == MOST && all.contains(&others), "{all:?}");
    }
}
