//! Attaches to the processes that are selected at this moment.
//!
//! The members of a group come and go. Each is held by the descriptor with which its group was
//! compared, and whatever opens it again by its ID is followed by a look whether it still lives:
//! while it does, nobody else has its ID.

use anyhow::bail;
use numapilot_observe::{ObserveError, thread_group};
use numapilot_place::ancestors;
use procfs::process::Process;

use super::{Selection, Selector};

/// How often it is tried, if processes end meanwhile.
const TRIES: usize = 5;

/// What to do about numapilot itself, if it is in a selected group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oneself {
    /// It is observed as any other process.
    Observed,
    /// It must not be managed.
    Refused,
}

/// A member of a group.
struct Member {
    process: Process,
    parent: i32,
}

impl Selection {
    /// Whether nothing is selected.
    pub fn is_empty(&self) -> bool {
        self.pid.is_empty() && self.cgroup.is_empty() && self.unit.is_empty()
    }

    /// Opens the selected processes by their IDs. Of the members of a group these are those without a
    /// parent among them; the others are descendants. Also returns the IDs.
    ///
    /// # Errors
    /// A group without a process, processes that end faster than they can be opened, numapilot itself
    /// if it is refused, and what `open` fails with.
    pub fn attach<T>(
        &self,
        oneself: Oneself,
        open: impl Fn(&[i32]) -> Result<T, ObserveError>,
    ) -> anyhow::Result<(Vec<i32>, T)> {
        for _ in 0..TRIES {
            let members = self.members()?;
            let roots = roots(&members);
            if oneself == Oneself::Refused {
                refuse_oneself(&roots)?;
            }
            let mut pids: Vec<i32> = Vec::new();
            for pid in self.pid.iter().chain(&roots) {
                if !pids.contains(pid) {
                    pids.push(*pid);
                }
            }
            match open(&pids) {
                Ok(opened) if members.iter().all(Member::is_alive) => return Ok((pids, opened)),
                Err(ObserveError::NoProcess { pid }) if !self.pid.contains(&pid) => {}
                Err(error @ ObserveError::Protected { .. }) if oneself == Oneself::Observed => {
                    bail!(
                        "{error}, or observe the whole machine (numapilot stat -a, numapilot top \
                     without -p)"
                    )
                }
                Err(error) => return Err(error.into()),
                Ok(_) => {}
            }
        }
        bail!(
            "the selected processes end faster than they can be opened; select the process that \
             starts them: -p PID"
        );
    }

    fn members(&self) -> anyhow::Result<Vec<Member>> {
        let mut members: Vec<Member> = Vec::new();
        for selector in self.selectors() {
            if matches!(selector, Selector::Pid(_)) {
                continue;
            }
            let found: Vec<Member> =
                selector.members().into_iter().filter_map(Member::new).collect();
            if found.is_empty() {
                bail!("{selector} has no process now; {}", selector.remedy());
            }
            for member in found {
                if members.iter().all(|known| known.process.pid != member.process.pid) {
                    members.push(member);
                }
            }
        }
        Ok(members)
    }
}

impl Selector {
    /// What to do if it has no process.
    fn remedy(&self) -> String {
        match self {
            Self::Unit(name) => format!("start it, or check its name: systemctl status {name}"),
            _ => "start its program, or check its name: cat /proc/PID/cgroup".to_owned(),
        }
    }
}

impl Member {
    /// `None` if it has ended meanwhile.
    fn new(process: Process) -> Option<Self> {
        let parent = process.stat().ok().filter(|stat| !thread_group::has_ended(stat))?.ppid;
        Some(Self { process, parent })
    }

    fn is_alive(&self) -> bool {
        self.process.stat().is_ok_and(|stat| !thread_group::has_ended(&stat))
    }
}

/// Those without a parent among them.
fn roots(members: &[Member]) -> Vec<i32> {
    let is_root = |member: &&Member| members.iter().all(|one| one.process.pid != member.parent);
    members.iter().filter(is_root).map(|member| member.process.pid).collect()
}

fn refuse_oneself(roots: &[i32]) -> anyhow::Result<()> {
    let own = std::process::id().cast_signed();
    if let Some(root) = ancestors(own).into_iter().chain([own]).find(|pid| roots.contains(pid)) {
        bail!(
            "this run of numapilot is among the selected processes (below process {root}); select \
             a group without it, or run numapilot in another one: systemd-run --scope numapilot ..."
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::process::Command;

    use numapilot_observe::Tree;

    use super::*;

    fn of_group(path: &str) -> Selection {
        Selection { pid: Vec::new(), cgroup: vec![path.to_owned()], unit: Vec::new() }
    }

    fn member(pid: i32, parent: i32) -> Member {
        // Only its number counts here.
        let mut process = Process::myself().unwrap();
        process.pid = pid;
        Member { process, parent }
    }

    #[test]
    fn the_whole_machine_is_no_remedy_where_processes_are_changed() {
        let selection = Selection { pid: vec![1], cgroup: Vec::new(), unit: Vec::new() };
        let error = |oneself| {
            let protected = |_: &[i32]| Err::<(), _>(ObserveError::Protected { pid: 1 });
            selection.attach(oneself, protected).unwrap_err().to_string()
        };
        assert!(error(Oneself::Observed).contains("stat -a"));
        let refused = error(Oneself::Refused);
        assert!(
            refused.contains("name another process") && !refused.contains("stat -a"),
            "{refused}"
        );
    }

    #[test]
    fn descendants_are_no_roots() {
        let members = [member(10, 1), member(11, 10), member(20, 7), member(12, 11)];
        assert_eq!(roots(&members), [10, 20]);
    }

    #[test]
    fn a_group_without_processes_is_an_error() {
        let open = |_: &[i32]| Ok(());
        let error = of_group("/no such group").attach(Oneself::Observed, open).unwrap_err();
        assert!(error.to_string().contains("/no such group has no process now"), "{error}");
        let selection =
            Selection { pid: vec![], cgroup: vec![], unit: vec!["numapilot-none.service".into()] };
        let error = selection.attach(Oneself::Observed, open).unwrap_err().to_string();
        assert!(error.contains("systemctl status numapilot-none.service"), "{error}");
    }

    #[test]
    fn oneself_is_observed_and_not_managed() {
        let error = of_group("/").attach(Oneself::Refused, |_| Ok(())).unwrap_err().to_string();
        assert!(error.contains("is among the selected processes"), "{error}");
        let alone = Selection { pid: vec![7], cgroup: vec![], unit: vec![] };
        let (pids, ()) = alone.attach(Oneself::Refused, |_| Ok(())).unwrap();
        assert_eq!(pids, [7]);
    }

    #[test]
    fn what_was_opened_while_a_process_ended_is_opened_again() {
        let own = std::process::id().cast_signed();
        let path = super::super::cgroup_of(&Process::myself().unwrap()).unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let tries = Cell::new(0);
        let end = std::cell::RefCell::new(Some(&mut child));
        let (pids, tree) = of_group(&path)
            .attach(Oneself::Observed, |pids| {
                tries.set(tries.get() + 1);
                if let Some(child) = end.borrow_mut().take() {
                    child.kill().unwrap();
                    child.wait().unwrap();
                }
                Tree::of(pids)
            })
            .unwrap();
        // Other processes of the group may have ended as well.
        assert!(tries.get() >= 2);
        assert!(pids.contains(&own) || tree.pids().any(|pid| pid == own));
        // A process that the user named is not looked for again.
        let named = Selection { pid: vec![i32::MAX], cgroup: vec![], unit: vec![] };
        assert!(named.attach(Oneself::Observed, Tree::of).is_err());
    }
}
