//! Stays with a target: observes it, reports intervals, and forwards signals. `stat` and `advise` share
//! it.

use std::time::{Duration, Instant};

use numapilot_observe::{Observation, Session};
use numapilot_place::{Finished, Running, Supervisor};

/// How often to check whether running processes have ended.
const SLICE: Duration = Duration::from_millis(50);
/// Longest time between two calls of [`Reader::look`].
const LONGEST: Duration = Duration::from_secs(5);

/// Receives what is observed.
pub trait Reader {
    /// The figures of an interval that ended `time` seconds after the start.
    ///
    /// # Errors
    /// If they cannot be written.
    fn interval(&mut self, time: f64, figures: &Observation) -> anyhow::Result<()>;

    /// Called after every look at the target.
    fn look(&mut self) {}
}

/// What ends the observation, apart from a time limit.
pub enum Watched {
    /// The end of the observed program, which was started here.
    Target(Running),
    /// The end of the running processes, or of this program.
    Clock(Running),
    /// The end of the running processes, or a signal.
    Nothing,
}

/// The parameters that all kinds of targets share.
pub struct Watch<'a, R> {
    pub signals: &'a Supervisor,
    pub interval: Option<Duration>,
    pub timeout: Option<Duration>,
    pub reader: &'a mut R,
}

impl<R: Reader> Watch<'_, R> {
    /// Observes and prints until the end.
    ///
    /// # Errors
    /// Fails if the target cannot be observed or an interval cannot be written.
    pub fn until_end(
        &mut self,
        session: &mut Session,
        watched: Watched,
    ) -> anyhow::Result<Option<Finished>> {
        let began = Instant::now();
        let deadline = self.timeout.and_then(|limit| began.checked_add(limit));
        let mut print = self.interval.map(|interval| began + interval);
        let over = loop {
            let now = Instant::now();
            let until = [Some(session.next_look()), print, deadline];
            let next = until.into_iter().flatten().min().unwrap_or(now);
            let limit = next.saturating_duration_since(now).min(LONGEST);
            if self.wait(session, &watched, limit)? {
                break true;
            }
            self.reader.look();
            let now = Instant::now();
            if deadline.is_some_and(|d| now >= d) {
                break false;
            }
            if let (Some(due), Some(interval)) = (print, self.interval)
                && now >= due
            {
                let figures = session.interval();
                self.reader.interval((now - began).as_secs_f64(), &figures)?;
                // Skip the intervals that a stopped process missed.
                let missed = (now - due).as_nanos() / interval.as_nanos();
                let steps = u32::try_from(missed).unwrap_or(u32::MAX).saturating_add(1);
                print = Some(due + interval * steps);
            } else if now >= session.next_look() {
                session.observe_now();
            }
        };
        if self.interval.is_some() {
            let figures = session.interval();
            self.reader.interval(began.elapsed().as_secs_f64(), &figures)?;
        }
        // Once the limit is over, the program is asked to end.
        let limit = if over { None } else { Some(Duration::ZERO) };
        match watched {
            Watched::Target(program) => Ok(Some(program.wait(limit)?)),
            // Dropping a clock that still runs ends it.
            Watched::Clock(_) | Watched::Nothing => Ok(None),
        }
    }

    /// Waits for at most `limit`. Returns whether the observation is over.
    fn wait(
        &self,
        session: &mut Session,
        watched: &Watched,
        limit: Duration,
    ) -> anyhow::Result<bool> {
        let slice = limit.min(SLICE);
        Ok(match watched {
            Watched::Target(program) => self.signals.ended_within(program, limit)?,
            Watched::Clock(clock) => {
                self.signals.ended_within(clock, slice)? || session.has_ended()
            }
            Watched::Nothing => self.signals.asked_to_end(slice)? || session.has_ended(),
        })
    }
}
