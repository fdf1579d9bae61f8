//! Combines the verdicts of all processes into one result for each setting.
//!
//! Processes are weighted by their CPU time: if a setting is in effect in a shell but not in the
//! program that the shell starts, the program decides.

use super::Effect;
use super::Seen;
use super::expected::Item;
use super::process::{Cause, Verdict};

/// The last verdicts of one process, and its weight.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub name: String,
    /// Its CPU time in clock ticks.
    pub ticks: u64,
    /// One verdict for each setting.
    pub verdicts: Vec<Verdict>,
}

/// The processes with the same verdict.
#[derive(Clone, Debug)]
struct Side<T> {
    processes: u64,
    ticks: u64,
    /// The process with the most CPU time.
    busiest: Option<(u64, String, T)>,
}

impl<T> Default for Side<T> {
    fn default() -> Self {
        Self { processes: 0, ticks: 0, busiest: None }
    }
}

impl<T: Clone> Side<T> {
    fn add(&mut self, record: &Record, value: &T) {
        self.processes += 1;
        self.ticks += record.ticks;
        if self.busiest.as_ref().is_none_or(|(ticks, ..)| *ticks < record.ticks) {
            self.busiest = Some((record.ticks, record.name.clone(), value.clone()));
        }
    }
}

/// The verdicts of all processes about one setting.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    held: Side<String>,
    not: Side<Cause>,
    unseen: Side<String>,
    idle: Side<String>,
}

impl Tally {
    pub fn add(&mut self, record: &Record, verdict: &Verdict) {
        match verdict {
            Verdict::Held(seen) => self.held.add(record, seen),
            Verdict::Not(cause) => self.not.add(record, cause),
            Verdict::Unseen(cause) => self.unseen.add(record, cause),
            Verdict::Idle(cause) => self.idle.add(record, cause),
        }
    }

    pub fn seen(self, item: &Item) -> Seen {
        let is_of_program =
            self.not.busiest.as_ref().is_some_and(|(_, _, cause)| cause.is_of_program);
        Seen { setting: item.to_string(), effect: self.effect(), is_of_program }
    }

    fn effect(self) -> Effect {
        let Self { held, not, unseen, idle } = self;
        match (held.busiest, not.busiest) {
            (Some((.., seen)), None) => Effect::InEffect { seen: in_all(seen, held.processes) },
            (None, Some((.., cause))) => not_in_effect(cause),
            (Some((_, holder, seen)), Some((_, _, cause))) => {
                if not.ticks > held.ticks {
                    not_in_effect(cause)
                } else if held.ticks > not.ticks {
                    let seen = in_all(seen, held.processes);
                    Effect::InEffect { seen: format!("{seen}; but {}", cause.text) }
                } else {
                    Effect::Unseen {
                        cause: format!(
                            "it is in effect in {holder}, but {}; they used too little CPU time \
                             to tell which of them does the work",
                            cause.text
                        ),
                    }
                }
            }
            (None, None) => match (unseen.busiest, idle.busiest) {
                (Some((_, name, cause)), _) if !cause.contains(&name) => {
                    Effect::Unseen { cause: format!("{name}: {cause}") }
                }
                (Some((.., cause)), _) => Effect::Unseen { cause },
                (None, Some((.., cause))) => Effect::NotApplicable { cause },
                (None, None) => Effect::Unseen {
                    cause: "the program ended before it could be inspected".to_owned(),
                },
            },
        }
    }
}

fn in_all(seen: String, processes: u64) -> String {
    match processes {
        1 => seen,
        n => format!("{seen}; in {n} processes"),
    }
}

fn not_in_effect(cause: Cause) -> Effect {
    Effect::NotInEffect { cause: cause.text, remedy: cause.remedy.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(processes: &[(&str, u64, Verdict)]) -> Effect {
        let mut tally = Tally::default();
        for (name, ticks, verdict) in processes {
            let record = Record { name: (*name).to_owned(), ticks: *ticks, verdicts: Vec::new() };
            tally.add(&record, verdict);
        }
        tally.effect()
    }

    fn held() -> Verdict {
        Verdict::Held("mapped".to_owned())
    }

    fn lacks() -> Verdict {
        Verdict::Not(Cause {
            text: "prog is statically linked".to_owned(),
            remedy: "link it dynamically",
            is_of_program: true,
        })
    }

    fn unseen() -> Verdict {
        Verdict::Unseen("it ended before it could be inspected".to_owned())
    }

    #[test]
    fn the_program_that_does_the_work_decides() {
        let worker = effect(&[("sh", 1, held()), ("prog", 90, lacks())]);
        assert!(matches!(&worker, Effect::NotInEffect { cause, .. } if cause.contains("static")));
        let helper = effect(&[("prog", 90, held()), ("helper", 2, lacks())]);
        assert_eq!(
            helper,
            Effect::InEffect { seen: "mapped; but prog is statically linked".to_owned() }
        );
        assert!(matches!(
            effect(&[("sh", 0, held()), ("prog", 0, lacks())]),
            Effect::Unseen { .. }
        ));
    }

    #[test]
    fn what_was_not_seen_is_never_without_effect() {
        assert_eq!(
            effect(&[("prog", 0, unseen())]),
            Effect::Unseen { cause: "prog: it ended before it could be inspected".to_owned() }
        );
        assert!(matches!(effect(&[]), Effect::Unseen { .. }));
        assert_eq!(
            effect(&[("sh", 3, held()), ("prog", 50, unseen())]),
            Effect::InEffect { seen: "mapped".to_owned() }
        );
        let idle = Verdict::Idle("this kernel has no AutoNUMA".to_owned());
        assert!(matches!(effect(&[("prog", 1, idle)]), Effect::NotApplicable { .. }));
    }
}
