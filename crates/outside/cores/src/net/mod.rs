//! The Petri net that allocates and releases cores, as two matrices with guards.
//!
//! Source: Dominico, de Almeida, Meira, "A PetriNet Mechanism for OLAP in NUMA" (DaMoN
//! 2017), section 3. Its figure shows one sub-net; the whole is:
//!
//! ```text
//!        t0 (idle)  -> Idle     -- t4 (release) / t5 (at the minimum) --.
//! Checks t1 (stable)-> Stable   -- t3 (the next tick) ------------------+-> Checks
//!        t2 (over)  -> Overload -- t6 (allocate) / t7 (at the maximum) -'
//!
//! t4 moves a token from Allocated to Free, t6 one from Free to Allocated
//! ```
//!
//! Two things differ from the text. Its inequalities are strict, which leaves no transition for a
//! utilisation that equals a threshold: here the guards cover every value ([`Verdict::of`]). And t5
//! and t7 only *read* the cores: their arcs go both ways and cancel out in the incidence matrix.
//! The single matrix of the paper therefore cannot show when they are enabled, so there are two.

mod draw;

use std::fmt;

use serde::Serialize;

/// A place of the net.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A check of the target is due.
    Checks,
    /// The target has more cores than it needs.
    Idle,
    /// The target has as many cores as it needs.
    Stable,
    /// The target has fewer cores than it needs.
    Overload,
    /// One token for each core that the target has.
    Allocated,
    /// One token for each core that it could have.
    Free,
}

impl Place {
    /// All places, in the order of the matrices' columns.
    pub const ALL: [Self; 6] =
        [Self::Checks, Self::Idle, Self::Stable, Self::Overload, Self::Allocated, Self::Free];

    /// Its letter.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Checks => 'C',
            Self::Idle => 'I',
            Self::Stable => 'S',
            Self::Overload => 'O',
            Self::Allocated => 'A',
            Self::Free => 'F',
        }
    }
}

/// A transition of the net, which moves tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transition {
    /// The target is idle.
    T0,
    /// It is neither.
    T1,
    /// It is overloaded.
    T2,
    /// The next tick.
    T3,
    /// A core is released.
    T4,
    /// No core is released: the target has the fewest it may have.
    T5,
    /// A core is allocated.
    T6,
    /// No core is allocated: the target has the most it may have.
    T7,
}

impl Transition {
    /// All transitions, in the order of the matrices' rows.
    pub const ALL: [Self; 8] =
        [Self::T0, Self::T1, Self::T2, Self::T3, Self::T4, Self::T5, Self::T6, Self::T7];
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"][*self as usize])
    }
}

/// The state of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Cores could be released.
    Idle,
    /// The number is right, or the utilisation is unknown.
    Stable,
    /// Cores should be added.
    Overload,
}

impl Verdict {
    /// Judges a utilisation by the thresholds, all as shares of the allocated cores. An unknown
    /// utilisation is stable.
    #[must_use]
    pub fn of(utilisation: Option<f64>, idle: f64, overload: f64) -> Self {
        match utilisation {
            Some(u) if u <= idle => Self::Idle,
            Some(u) if u >= overload => Self::Overload,
            _ => Self::Stable,
        }
    }
}

/// Tokens on each place, in the order of [`Place::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Marking(pub [u32; 6]);

impl Marking {
    /// Tokens on a place.
    #[must_use]
    pub const fn on(self, place: Place) -> u32 {
        self.0[place as usize]
    }

    /// The one of the first four places that has the token.
    #[must_use]
    pub fn state(self) -> Place {
        let state = Place::ALL.into_iter().take(4).find(|place| self.on(*place) > 0);
        state.unwrap_or(Place::Checks)
    }
}

/// Weights of the arcs between each transition (row) and each place (column).
pub type Weights = [[u32; 6]; 8];

/// The net for a target that may have between `minimum` and `maximum` cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Net {
    pre: Weights,
    post: Weights,
    minimum: u32,
    maximum: u32,
}

impl Net {
    /// The net; the minimum is at least 1 and at most the maximum. The paper's net has the
    /// minimum 1 and as maximum all cores of the machine, r_d.
    #[must_use]
    pub fn new(minimum: u32, maximum: u32) -> Self {
        let maximum = maximum.max(1);
        let minimum = minimum.clamp(1, maximum);
        let spare = maximum - minimum;
        // Columns:   C  I  S  O  A            F
        let pre = [
            [1, 0, 0, 0, 0, 0],
            [1, 0, 0, 0, 0, 0],
            [1, 0, 0, 0, 0, 0],
            [0, 0, 1, 0, 0, 0],
            [0, 1, 0, 0, minimum + 1, 0],
            [0, 1, 0, 0, 0, spare],
            [0, 0, 0, 1, 0, 1],
            [0, 0, 0, 1, maximum, 0],
        ];
        let post = [
            [0, 1, 0, 0, 0, 0],
            [0, 0, 1, 0, 0, 0],
            [0, 0, 0, 1, 0, 0],
            [1, 0, 0, 0, 0, 0],
            [1, 0, 0, 0, minimum, 1],
            [1, 0, 0, 0, 0, spare],
            [1, 0, 0, 0, 1, 0],
            [1, 0, 0, 0, maximum, 0],
        ];
        Self { pre, post, minimum, maximum }
    }

    /// The tokens that each transition takes.
    #[must_use]
    pub const fn pre(&self) -> &Weights {
        &self.pre
    }

    /// The tokens that each transition gives.
    #[must_use]
    pub const fn post(&self) -> &Weights {
        &self.post
    }

    /// Fewest cores.
    #[must_use]
    pub const fn minimum(&self) -> u32 {
        self.minimum
    }

    /// Most cores.
    #[must_use]
    pub const fn maximum(&self) -> u32 {
        self.maximum
    }

    /// The first marking: a check is due, and `cores` are allocated.
    #[must_use]
    pub fn begin(&self, cores: u32) -> Marking {
        let cores = cores.clamp(self.minimum, self.maximum);
        Marking([1, 0, 0, 0, cores, self.maximum - cores])
    }

    /// Whether the guard of a transition holds: t0, t1 and t2 ask for their verdict, t3 for
    /// the next tick, the others for nothing but tokens.
    #[must_use]
    pub fn guard(transition: Transition, verdict: Verdict, tick: bool) -> bool {
        match transition {
            Transition::T0 => verdict == Verdict::Idle,
            Transition::T1 => verdict == Verdict::Stable,
            Transition::T2 => verdict == Verdict::Overload,
            Transition::T3 => tick,
            _ => true,
        }
    }

    /// The marking after a transition; `None` where tokens are missing.
    #[must_use]
    pub fn fire(&self, marking: Marking, transition: Transition) -> Option<Marking> {
        let row = transition as usize;
        let mut after = marking;
        for (tokens, weights) in after.0.iter_mut().zip(self.pre[row].iter().zip(self.post[row])) {
            *tokens = tokens.checked_sub(*weights.0)? + weights.1;
        }
        Some(after)
    }

    /// The transition that may fire, with the marking after it. There is never more than one.
    #[must_use]
    pub fn next(
        &self,
        marking: Marking,
        verdict: Verdict,
        tick: bool,
    ) -> Option<(Transition, Marking)> {
        Transition::ALL
            .into_iter()
            .filter(|transition| Self::guard(*transition, verdict, tick))
            .find_map(|transition| Some((transition, self.fire(marking, transition)?)))
    }
}

/// A net with its marking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    net: Net,
    marking: Marking,
    firings: Vec<Transition>,
}

impl Run {
    /// Begins with this many cores.
    #[must_use]
    pub fn new(net: Net, cores: u32) -> Self {
        let marking = net.begin(cores);
        Self { net, marking, firings: Vec::new() }
    }

    /// The net.
    #[must_use]
    pub const fn net(&self) -> &Net {
        &self.net
    }

    /// The marking.
    #[must_use]
    pub const fn marking(&self) -> Marking {
        self.marking
    }

    /// Allocated cores.
    #[must_use]
    pub const fn cores(&self) -> u32 {
        self.marking.on(Place::Allocated)
    }

    /// The transitions that fired in the last tick.
    #[must_use]
    pub fn firings(&self) -> &[Transition] {
        &self.firings
    }

    /// Changes the limits, because CPUs went offline or came back, or because others need them.
    pub fn limit(&mut self, minimum: u32, maximum: u32) {
        if (minimum, maximum) == (self.net.minimum, self.net.maximum) {
            return;
        }
        self.net = Net::new(minimum, maximum);
        let cores = self.cores().clamp(self.net.minimum, self.net.maximum);
        self.marking.0[Place::Allocated as usize] = cores;
        self.marking.0[Place::Free as usize] = self.net.maximum - cores;
    }

    /// Runs a tick that ends with `cores`, within the limits: t4 or t6 fires as often as necessary.
    /// If the number does not change, the verdict is `verdict`.
    pub fn tick(&mut self, verdict: Verdict, cores: u32) {
        self.firings.clear();
        let cores = cores.clamp(self.net.minimum, self.net.maximum);
        if self.marking.state() == Place::Stable {
            self.fire(verdict);
        }
        let mut verdict = match (verdict, self.cores()) {
            (_, now) if cores < now => Verdict::Idle,
            (_, now) if cores > now => Verdict::Overload,
            // A core could be released or allocated, but is not: that is stable.
            (Verdict::Idle, now) if now > self.net.minimum => Verdict::Stable,
            (Verdict::Overload, now) if now < self.net.maximum => Verdict::Stable,
            (verdict, _) => verdict,
        };
        loop {
            self.fire(verdict);
            if verdict == Verdict::Stable {
                return;
            }
            self.fire(verdict);
            verdict = match self.cores() {
                now if cores < now => Verdict::Idle,
                now if cores > now => Verdict::Overload,
                _ => return,
            };
        }
    }

    fn fire(&mut self, verdict: Verdict) {
        if let Some((transition, marking)) = self.net.next(self.marking, verdict, true) {
            self.marking = marking;
            self.firings.push(transition);
        }
    }
}

#[cfg(test)]
mod tests;
