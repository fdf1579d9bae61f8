//! What of a plan a program that runs cannot get any more.

use std::path::Path;

use numapilot_sys::remote;

use crate::huge_pages::{Choice, Switches};
use crate::settings_journal::Setting;
use crate::{AllocatorChoice, MemoryMode, Note, NumaBalancing, Plan, Prepared, Thp};

/// The first part of a plan that a program which runs cannot get, if there is one. `prepared` is
/// the same plan.
#[must_use]
pub fn obstacle(plan: &Plan, prepared: &Prepared) -> Option<Note> {
    let at_start = "a program gets it at its start";
    if plan.allocator != AllocatorChoice::Inherit {
        return Some(Note::new(format!("allocator {}", plan.allocator), at_start, RESTART));
    }
    if let Some(name) = plan.env.keys().next() {
        return Some(Note::new(format!("variable {name}"), at_start, RESTART));
    }
    let by_thread = plan.memory.mode != MemoryMode::Inherit
        || plan.thp != Thp::Inherit
        || plan.numa_balancing == NumaBalancing::Off;
    if by_thread && !remote::IS_SUPPORTED {
        let cause = "threads that run get another memory policy or other huge pages on x86-64 only";
        return Some(Note::new("memory and thp", cause, RESTART));
    }
    let is_machine_wide =
        prepared.machine_wide().iter().any(|change| change.setting == Setting::Thp);
    let is_always =
        || Switches::read(Path::new("/")).is_some_and(|switches| switches.pmd() == Choice::Always);
    if plan.thp == Thp::Always && !is_machine_wide && !is_always() {
        let cause = "only at its start can a program be told to request huge pages";
        return Some(Note::new("thp always", cause, RESTART));
    }
    None
}

const RESTART: &str = "start the program again for each plan";

#[cfg(test)]
mod tests {
    use numapilot_topology::Machine;

    use super::*;
    use crate::{MemoryPolicy, Options, ThreadPlacement, prepare};

    fn subject(plan: &Plan) -> Option<String> {
        let command = ["true".into()];
        let machine = numapilot_topology::read(Path::new("/")).unwrap_or(Machine::uniform(1, 1));
        let prepared = prepare(plan, &machine, &command, &Options::default()).unwrap();
        obstacle(plan, &prepared).map(|note| note.subject)
    }

    #[test]
    fn only_what_is_decided_at_the_start_is_refused() {
        assert_eq!(subject(&Plan::default()), None);
        let glibc = AllocatorChoice::Named("glibc".to_owned());
        let plan = Plan { allocator: glibc, ..Plan::default() };
        assert_eq!(subject(&plan).as_deref(), Some("allocator glibc"));
        let plan = Plan { env: [("A".to_owned(), "1".to_owned())].into(), ..Plan::default() };
        assert_eq!(subject(&plan).as_deref(), Some("variable A"));
        let memory = MemoryPolicy { mode: MemoryMode::Local, ..MemoryPolicy::default() };
        let plan = Plan { memory, thp: Thp::Never, ..Plan::default() };
        let plan = Plan { threads: ThreadPlacement::Sparse, ..plan };
        let expected = (!remote::IS_SUPPORTED).then_some("memory and thp");
        assert_eq!(subject(&plan).as_deref(), expected);
    }
}
