//! Observes the effects of a plan in the running program, for `run -v`, `run --strict` and
//! `run --attest`.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use numapilot_cli_kit::terminal::Terminal;
use numapilot_place::effect::{Effect, Observer, Outcome, Seen};
use numapilot_place::{Finished, PlaceError, Prepared, Running};

use super::notices::finish;

/// Whether the plan's effects are observed, and what follows.
#[derive(Clone, Copy)]
pub struct Watch {
    /// All effects are printed.
    pub verbose: bool,
    /// A missing effect is an error.
    pub strict: bool,
    /// All effects are attested.
    pub attest: bool,
}

/// One program that is being observed.
pub struct Effects {
    label: String,
    observer: Option<Observer>,
    reported: Arc<Mutex<Vec<Seen>>>,
}

impl Watch {
    /// Whether this process has to stay with the program.
    pub fn is_wanted(self, prepared: &Prepared) -> bool {
        self.verbose || self.attest || self.strict && !prepared.expected().is_empty()
    }

    /// Starts to observe. A moment after the start, the effects seen by then are printed. `label`
    /// precedes each line.
    pub fn start(
        self,
        terminal: &Terminal,
        prepared: &Prepared,
        running: &Running,
        label: &str,
    ) -> Effects {
        let expected = prepared.expected();
        let reported = Arc::new(Mutex::new(Vec::new()));
        let mut effects = Effects { label: label.to_owned(), observer: None, reported };
        if expected.is_empty() || !(self.verbose || self.strict || self.attest) {
            return effects;
        }
        let (terminal, label, reported) =
            (*terminal, label.to_owned(), Arc::clone(&effects.reported));
        let first = move |seen: Vec<Seen>| {
            seen.iter().for_each(|seen| self.say(&terminal, &label, seen));
            *reported.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        };
        match Observer::start(expected, running, first) {
            Ok(observer) => effects.observer = Some(observer),
            Err(error) => terminal.warn(format!(
                "{}whether the plan takes effect cannot be watched: {error}",
                effects.label
            )),
        }
        effects
    }

    /// Prints what has changed since, once the programs have ended, and adds all effects to the
    /// outcomes. `ends` are those of the programs, in their order. Under `strict`, a missing effect
    /// is an error.
    pub fn finish(
        self,
        terminal: &Terminal,
        all: Vec<Effects>,
        ends: &[Finished],
        outcomes: &mut Vec<Outcome>,
    ) -> anyhow::Result<ExitCode> {
        let status = finish(terminal, ends);
        let mut without = Vec::new();
        for (effects, end) in all.into_iter().zip(ends) {
            let seen = effects.observer.map(Observer::finish).unwrap_or_default();
            let reported = effects.reported.lock().unwrap_or_else(PoisonError::into_inner);
            let is_known = |seen: &Seen| {
                reported.iter().any(|known| {
                    known.setting == seen.setting && is_alike(&known.effect, &seen.effect)
                })
            };
            seen.iter()
                .filter(|seen| !is_known(seen))
                .for_each(|seen| self.say(terminal, &effects.label, seen));
            let daemons: Vec<Seen> = end.daemons.iter().cloned().map(Seen::from).collect();
            for daemon in &daemons {
                match daemon.note() {
                    // Without it, only a part of the plan was in effect.
                    Some(note) if !self.strict => {
                        terminal.warn(format!("{}{note}", effects.label));
                    }
                    _ => self.say(terminal, &effects.label, daemon),
                }
            }
            if let Some(note) = end.threads.as_ref().and_then(|end| end.note_from_outside()) {
                if !self.strict {
                    terminal.warn(format!("{}{note}", effects.label));
                }
                outcomes.push(Outcome::from(note.clone()));
                without.push(note);
            }
            for seen in seen.into_iter().chain(daemons) {
                without.extend(seen.note());
                outcomes.push(Outcome::from(seen));
            }
        }
        if self.strict && !without.is_empty() {
            return Err(PlaceError::NoEffect(without).into());
        }
        Ok(status)
    }

    fn say(self, terminal: &Terminal, label: &str, seen: &Seen) {
        match seen.note() {
            // Under `strict` alone it is printed once, as an error at the end.
            Some(note) if self.verbose => terminal.warn(format!("{label}{note}")),
            None if self.verbose || self.strict && matches!(seen.effect, Effect::Unseen { .. }) => {
                terminal.say(format_args!("{label}{seen}"));
            }
            Some(_) | None => {}
        }
    }
}

/// Whether two effects differ only in figures.
fn is_alike(a: &Effect, b: &Effect) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}
