//! A process of a tree.

use std::time::Duration;

use procfs::ProcResult;
use procfs::process::{Process, Stat};

use super::used::Used;
use crate::thread_group::{has_ended, lost_its_first, tids};

#[derive(Debug)]
pub struct Member {
    pub process: Process,
    pub parent: i32,
    pub used: Used,
    /// CPU time of the children that it has waited for.
    pub used_by_children: Duration,
    /// It has ended, and its parent has not reaped it yet.
    pub is_zombie: bool,
    /// Its first thread has ended, and others run.
    lost_its_first: bool,
}

impl Member {
    pub fn open(process: Process) -> ProcResult<Self> {
        let stat = process.stat()?;
        let mut member = Self {
            process,
            parent: 0,
            used: Used::default(),
            used_by_children: Duration::ZERO,
            is_zombie: false,
            lost_its_first: false,
        };
        member.update(&stat);
        Ok(member)
    }

    pub fn update(&mut self, stat: &Stat) {
        self.parent = stat.ppid;
        self.used = Used::of(stat);
        self.used_by_children = Used::by_children(stat);
        self.is_zombie = has_ended(stat);
        self.lost_its_first = lost_its_first(stat);
    }

    /// Whether it runs at this moment.
    pub fn runs_now(&self) -> bool {
        self.process.stat().is_ok_and(|stat| !has_ended(&stat))
    }

    /// Its running threads.
    pub fn threads(&self) -> impl Iterator<Item = i32> + use<'_> {
        let first = self.process.pid;
        let ended = move |tid: &i32| self.lost_its_first && *tid == first;
        tids(&self.process).into_iter().filter(move |tid| !ended(tid))
    }
}
