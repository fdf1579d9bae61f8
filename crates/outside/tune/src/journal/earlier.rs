//! Reads the journals of other searches, for what they show about the plans of this one.

use std::path::Path;

use numapilot_place::Plan;
use serde::Deserialize;
use serde_json::Value;

use super::{
    COMMAND, Entry, FACTORS, Fingerprint, GOAL, Header, MACHINE, PLANS, TOPOLOGY, VERSION,
};
use crate::evidence::{Goal, Trial};
use crate::lines::whole_lines;
use crate::space::{Factor, Space};

/// A search that was made earlier.
#[derive(Clone, Debug)]
pub struct EarlierSearch {
    /// The command, in words.
    pub command: String,
    /// The hash of the topology of its host; absent on an emulated machine.
    pub topology: Option<String>,
    /// The emulated machine.
    pub machine: Option<String>,
    /// The direction of its metric.
    pub goal: Goal,
    /// Its plans, without pairs of levels that exclude each other.
    pub space: Space,
    /// Its runs.
    pub trials: Vec<Trial>,
}

impl EarlierSearch {
    /// When its last run began, in milliseconds since 1970 (UTC).
    #[must_use]
    pub fn last_ms(&self) -> u64 {
        self.trials.iter().filter_map(|trial| trial.began_ms).max().unwrap_or_default()
    }
}

/// The search of this journal. `None` if the file cannot be read, or is of another version: what
/// does not concern the present search must not stop it.
#[must_use]
pub fn earlier_search(path: &Path) -> Option<EarlierSearch> {
    let text = std::fs::read(path).ok()?;
    let (lines, _) = whole_lines(&text);
    let mut lines = lines.map(|(_, line)| line);
    let header: Header = serde_json::from_slice(lines.next()?).ok()?;
    if header.version != VERSION {
        return None;
    }
    let entries = lines.filter_map(|line| serde_json::from_slice(line).ok());
    let trials = entries.filter_map(|entry| match entry {
        Entry::Trial(trial) => Some(trial),
        Entry::Answer(_) | Entry::Written(_) | Entry::Prior(_) => None,
    });
    let search = &header.search;
    let words = field::<Vec<String>>(search, COMMAND).unwrap_or_default();
    Some(EarlierSearch {
        command: words.join(" "),
        topology: field(search, TOPOLOGY),
        machine: search.get(MACHINE).and_then(|machine| Some(machine.get(0)?.as_str()?.to_owned())),
        goal: field(search, GOAL)?,
        space: Space {
            factors: field::<Vec<Factor>>(search, FACTORS)?,
            extras: field::<Vec<Plan>>(search, PLANS)?,
            ..Space::default()
        },
        trials: trials.collect(),
    })
}

fn field<'a, T: Deserialize<'a>>(search: &'a Fingerprint, key: &str) -> Option<T> {
    search
        .get(key)
        .filter(|value| **value != Value::Null)
        .and_then(|value| T::deserialize(value).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{FILE, Journal};
    use super::*;
    use crate::evidence::{Order, Outcome, Phase};
    use crate::shape::Candidate;

    fn fingerprint() -> Fingerprint {
        let allocators = json!([{"name": "allocator",
            "levels": [{"allocator": "inherit"}, {"allocator": "jemalloc"}]}]);
        let fields = [
            (COMMAND, json!(["app", "-x"])),
            (FACTORS, allocators),
            (PLANS, json!([])),
            (GOAL, json!("maximize")),
            (TOPOLOGY, json!("0123")),
            (MACHINE, json!(["machine-a", [], null])),
        ];
        fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    #[test]
    fn a_journal_is_read_for_another_search() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(folder.path(), &fingerprint(), false).unwrap();
        let order = Order { phase: Phase::Screen, block: 0, candidate: Candidate(1) };
        let trial = Trial { began_ms: Some(7), ..Trial::new(order, 2.0, Outcome::Value(3.0)) };
        journal.append_answer("42").unwrap();
        journal.append(&trial).unwrap();
        // Another search may be running: the lock of its journal is no obstacle.
        let search = earlier_search(&folder.path().join(FILE)).unwrap();
        assert_eq!((search.command.as_str(), search.goal), ("app -x", Goal::Maximize));
        assert_eq!(search.topology.as_deref(), Some("0123"));
        assert_eq!(search.machine.as_deref(), Some("machine-a"));
        assert_eq!((search.trials.as_slice(), search.last_ms()), ([trial].as_slice(), 7));
        assert_eq!(search.space.plan(Candidate(1)).to_string(), "jemalloc");
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        assert!(earlier_search(&path).is_none());
        for text in ["", "x\n", "{\"version\": 99, \"search\": {}}\n"] {
            std::fs::write(&path, text).unwrap();
            assert!(earlier_search(&path).is_none(), "{text}");
        }
    }
}
