//! Draws the net for people: as a table, and as a graph in the DOT language.

use std::fmt::Write;

use super::{Marking, Net, Place, Run, Transition};

impl Transition {
    const fn guard_text(self) -> &'static str {
        match self {
            Self::T0 => "u <= thmin",
            Self::T1 => "thmin < u < thmax",
            Self::T2 => "u >= thmax",
            Self::T3 => "next tick",
            _ => "",
        }
    }

    const fn action(self) -> &'static str {
        match self {
            Self::T0 => "idle",
            Self::T1 => "stable",
            Self::T2 => "overload",
            Self::T3 => "look again",
            Self::T4 => "release a core",
            Self::T5 => "at the minimum",
            Self::T6 => "allocate a core",
            Self::T7 => "at the maximum",
        }
    }
}

/// `I + 2A`.
fn sum(weights: [u32; 6]) -> String {
    let terms = Place::ALL.into_iter().zip(weights).filter(|(_, weight)| *weight > 0);
    let term = |(place, weight): (Place, u32)| match weight {
        1 => place.letter().to_string(),
        _ => format!("{weight}{}", place.letter()),
    };
    terms.map(term).collect::<Vec<_>>().join(" + ")
}

impl Net {
    /// One line per transition: guard, the tokens that it takes and gives, and its action.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text =
            format!("{:<3} {:<18} {:<10} {:<14} action\n", "t", "guard", "takes", "gives");
        for (transition, (pre, post)) in
            Transition::ALL.into_iter().zip(self.pre().iter().zip(self.post()))
        {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{transition:<3} {:<18} {:<10} {:<14} {}",
                transition.guard_text(),
                sum(*pre),
                sum(*post),
                transition.action()
            );
        }
        text
    }

    /// The graph with a marking, for `dot -Tsvg`.
    #[must_use]
    pub fn dot(&self, marking: Marking) -> String {
        let mut text = String::from(
            "digraph cores {\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];\n  \
             edge [fontname=\"sans-serif\", fontsize=10];\n",
        );
        for place in Place::ALL {
            let _ = writeln!(
                text,
                "  {} [shape=circle, label=\"{place:?}\\n{}\"];",
                place.letter(),
                marking.on(place)
            );
        }
        for transition in Transition::ALL {
            let (guard, action) = (transition.guard_text(), transition.action());
            let guard = if guard.is_empty() { String::new() } else { format!("\\n{guard}") };
            let _ = writeln!(
                text,
                "  {transition} [shape=box, label=\"{transition}: {action}{guard}\"];"
            );
        }
        for transition in Transition::ALL {
            let row = transition as usize;
            for place in Place::ALL {
                let (takes, gives) =
                    (self.pre()[row][place as usize], self.post()[row][place as usize]);
                if takes > 0 {
                    let _ = writeln!(text, "  {} -> {transition}{};", place.letter(), label(takes));
                }
                if gives > 0 {
                    let _ = writeln!(text, "  {transition} -> {}{};", place.letter(), label(gives));
                }
            }
        }
        text.push_str("}\n");
        text
    }
}

fn label(weight: u32) -> String {
    if weight == 1 { String::new() } else { format!(" [label=\"{weight}\"]") }
}

impl Run {
    /// The net, its marking, and the transitions of the last tick.
    #[must_use]
    pub fn explain(&self) -> String {
        let marking = self.marking();
        let tokens: Vec<String> = Place::ALL
            .into_iter()
            .map(|place| format!("{} = {}", place.letter(), marking.on(place)))
            .collect();
        let firings = match self.firings() {
            [] => "nothing has fired yet".to_owned(),
            all => all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        };
        format!(
            "{}\nmarking      {}\nlast tick    {firings}\ninvariants   C + I + S + O = 1, \
             A + F = {}\n",
            self.net().table(),
            tokens.join(", "),
            self.net().maximum()
        )
    }
}
