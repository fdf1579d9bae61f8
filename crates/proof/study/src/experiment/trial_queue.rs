//! The order of trials: experiment by experiment, round by round, in random order within a round.
//!
//! There is no barrier between rounds: when a trial ends, the next one in the queue starts, even if
//! it belongs to the next round or experiment. A trial that must run alone waits until nothing
//! runs, and no other trial overtakes it.

use std::collections::VecDeque;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::schedule::Schedule;

/// A trial to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// Index of the task.
    pub task: usize,
    pub round: u32,
}

/// The trials that have not started, in order.
#[derive(Debug)]
pub(super) struct TrialQueue(VecDeque<Due>);

impl TrialQueue {
    pub fn new(schedule: &Schedule<'_>, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut all = VecDeque::new();
        for (experiment, round) in schedule.rounds() {
            let mut turn = schedule.turn(experiment, round);
            turn.shuffle(&mut rng);
            all.extend(turn.into_iter().map(|task| Due { task, round }));
        }
        Self(all)
    }

    /// Removes the first trial that may start beside the running ones.
    pub fn next(&mut self, schedule: &Schedule<'_>, running: &[Due]) -> Option<Due> {
        self.0.retain(|due| schedule.tasks[due.task].due.contains(&due.round));
        let is_alone = |due: &Due| schedule.tasks[due.task].alone;
        // A command that has not worked yet does not run twice at once.
        let is_tried = |due: &Due| {
            !schedule.tasks[due.task].works && running.iter().any(|other| other.task == due.task)
        };
        let at = self.0.iter().position(|due| is_alone(due) || !is_tried(due))?;
        let waits = is_alone(&self.0[at]) || running.iter().any(is_alone);
        if waits && !running.is_empty() { None } else { self.0.remove(at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::tests::{lab, tiny};
    use crate::experiment::{Experiment, Outcome, ScaleName, Trial};

    fn made(schedule: &mut Schedule<'_>, due: Due, outcome: Outcome) {
        let command = schedule.tasks[due.task].command.clone();
        schedule.made(due.task, &Trial { command, round: due.round, seconds: 1.0, outcome });
    }

    fn values() -> Outcome {
        Outcome::Values([("seconds".to_owned(), Ok(1.0.into()))].into())
    }

    #[test]
    fn rounds_follow_each_other_without_a_wait_and_each_has_every_cell() {
        let all = [lab("L1", ""), lab("L2", "")];
        let mut schedule = Schedule::new(&all, ScaleName::Smoke, None, &[]);
        let mut queue = TrialQueue::new(&schedule, 1);
        let mut running = Vec::new();
        let mut begun = Vec::new();
        while let Some(due) = queue.next(&schedule, &running) {
            begun.push(due);
            running.push(due);
            // The first of each pair keeps running while others start and end.
            if running.len() == 2 {
                made(&mut schedule, running.remove(usize::from(begun.len() % 3 > 0)), values());
            }
        }
        assert_eq!(begun.len(), 12);
        for (turn, round) in begun[2..].chunks(2).zip([1, 2, 0, 1, 2]) {
            assert!(turn.iter().all(|due| due.round == round), "{begun:?}");
            assert_ne!(turn[0].task, turn[1].task);
        }
        assert!(begun[..6].iter().all(|due| due.task < 2), "{begun:?}");
    }

    #[test]
    fn what_is_alone_waits_for_all_and_all_wait_for_it() {
        let host = Experiment { machine: "host".to_owned(), ..lab("H", "") };
        let all = [lab("L1", ""), tiny(), host, lab("L3", "")];
        let schedule = Schedule::new(&all, ScaleName::Laptop, Some(1), &[]);
        let mut queue = TrialQueue::new(&schedule, 1);
        let mut next = |running: &[Due]| queue.next(&schedule, running);
        let first = next(&[]).unwrap();
        let second = next(&[first]).unwrap();
        assert_eq!(next(&[first, second]), None);
        // Two trials of each of the two experiments on the host.
        for _ in 0..4 {
            assert_eq!(next(&[first]), None);
            let alone = next(&[]).unwrap();
            assert!((2..6).contains(&alone.task), "{alone:?}");
            assert_eq!(next(&[alone]), None);
        }
        let last = next(&[]).unwrap();
        assert!(next(&[last]).is_some());
        assert_eq!(next(&[]), None);
    }

    #[test]
    fn what_may_never_work_is_tried_once_before_it_is_tried_again() {
        let all = [lab("L1", ""), lab("L2", "")];
        let mut schedule = Schedule::new(&all, ScaleName::Smoke, None, &[]);
        let mut queue = TrialQueue::new(&schedule, 1);
        let a = queue.next(&schedule, &[]).unwrap();
        let b = queue.next(&schedule, &[a]).unwrap();
        // The second rounds of both do not start.
        let c = queue.next(&schedule, &[a, b]).unwrap();
        assert!(a.task < 2 && b.task < 2 && c.task >= 2);
        made(&mut schedule, a, Outcome::Failed(String::new()));
        made(&mut schedule, b, values());
        let next = queue.next(&schedule, &[c]).unwrap();
        assert_eq!((next.task, next.round), (b.task, 1));
        // A command that works may run twice at once.
        assert_eq!(queue.next(&schedule, &[c, next]).unwrap(), Due { round: 2, ..next });
    }
}
