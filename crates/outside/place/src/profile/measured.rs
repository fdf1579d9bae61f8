//! Where and with what result a profile was measured: the table `[measured]` that `tune` writes.
//!
//! A plan that wins on one machine may lose on another, so `run` compares the topology with that of
//! the machine on which it runs.

use std::fmt::Write;
use std::path::Path;

use numapilot_topology::{Extent, Machine, StableHash, read_extent};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::quoted;
use crate::Note;

/// The origin of a profile. Every field may be missing; fields of later versions are ignored.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Measured {
    /// The topology of the machine ([`Machine::topology_hash`]); absent for an emulated one.
    #[serde(deserialize_with = "hash")]
    pub topology: Option<StableHash>,
    /// The emulated machine.
    pub emulated: Option<String>,
    /// The model of its processor.
    pub processor: Option<String>,
    /// The release of its kernel.
    pub kernel: Option<String>,
    /// The version of numapilot.
    pub numapilot: Option<String>,
    /// The hash of the words of the command.
    #[serde(deserialize_with = "hash")]
    pub command: Option<StableHash>,
    /// The date (UTC), as `2026-01-31`.
    pub date: Option<String>,
    /// The metric: `wall time`, or a pattern.
    pub metric: Option<String>,
    /// The metric divided by the default's.
    #[serde(deserialize_with = "ratio")]
    pub ratio: Option<f64>,
    /// Lower and upper bound of the ratio.
    #[serde(deserialize_with = "interval")]
    pub interval: Option<[f64; 2]>,
}

impl Measured {
    /// The note for the user if the topology of this machine is another one, or cannot be read.
    #[must_use]
    pub fn differs_here(&self) -> Option<Note> {
        self.topology?;
        match read_extent(Path::new("/"), Extent::Cpus) {
            Ok(machine) => self.differs(&machine),
            Err(error) => Some(Note::new(
                SUBJECT,
                format!("whether it was measured on such a machine is unknown: {error}"),
                "mount /proc and /sys",
            )),
        }
    }

    /// The note for the user if the topology of `machine` is another one.
    #[must_use]
    pub fn differs(&self, machine: &Machine) -> Option<Note> {
        self.differs_from(&machine.topology_hash().to_string())
    }

    /// The note for the user if the topology of another machine, as it attests it, is another one.
    #[must_use]
    pub fn differs_from(&self, here: &str) -> Option<Note> {
        let measured = self.topology?;
        if measured.to_string() == here {
            return None;
        }
        let processor = self.processor.as_ref().map(|model| format!(", {model}"));
        Some(Note::new(
            SUBJECT,
            format!(
                "it was measured on a machine of another topology ({measured}{}); this one is \
                 {here}, and another plan may be better here",
                processor.unwrap_or_default()
            ),
            "measure here: numapilot tune -- COMMAND",
        ))
    }

    /// The table, with a comment.
    pub(super) fn to_text(&self) -> String {
        let mut text = "\n# Where this plan was measured. `run` warns on a machine of another \
                        topology.\n[measured]\n"
            .to_owned();
        let hashes = |hash: &Option<StableHash>| hash.map(|hash| hash.to_string());
        let fields = [
            ("topology", hashes(&self.topology)),
            ("emulated", self.emulated.clone()),
            ("processor", self.processor.clone()),
            ("kernel", self.kernel.clone()),
            ("numapilot", self.numapilot.clone()),
            ("command", hashes(&self.command)),
            ("date", self.date.clone()),
            ("metric", self.metric.clone()),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "{name} = {}", quoted(&value));
            }
        }
        if let Some(ratio) = self.ratio {
            let _ = writeln!(text, "ratio = {ratio:?}");
        }
        if let Some([low, high]) = self.interval {
            let _ = writeln!(text, "interval = [{low:?}, {high:?}]");
        }
        text
    }
}

/// The subject of notes about the origin.
const SUBJECT: &str = "profile";

fn hash<'de, D: Deserializer<'de>>(value: D) -> Result<Option<StableHash>, D::Error> {
    let text = String::deserialize(value)?;
    StableHash::parse(&text)
        .map(Some)
        .ok_or_else(|| D::Error::custom(format!("`{text}` is not a hash of 16 hexadecimal digits")))
}

fn ratio<'de, D: Deserializer<'de>>(value: D) -> Result<Option<f64>, D::Error> {
    let ratio = f64::deserialize(value)?;
    if ratio.is_finite() && ratio > 0.0 {
        return Ok(Some(ratio));
    }
    Err(D::Error::custom(format!("{ratio} is not a ratio, which is greater than 0")))
}

fn interval<'de, D: Deserializer<'de>>(value: D) -> Result<Option<[f64; 2]>, D::Error> {
    let [low, high] = <[f64; 2]>::deserialize(value)?;
    if low.is_finite() && high.is_finite() && 0.0 <= low && low <= high {
        return Ok(Some([low, high]));
    }
    Err(D::Error::custom(format!(
        "[{low}, {high}] is not an interval of ratios, of which the first is the smaller one"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_topology_is_noted_and_the_same_is_not() {
        let machine = Machine::uniform(2, 2);
        let measured = Measured {
            topology: Some(machine.topology_hash()),
            processor: Some("Model X".into()),
            ..Measured::default()
        };
        assert_eq!(measured.differs(&machine), None);
        let note = measured.differs(&Machine::uniform(4, 2)).unwrap().to_string();
        assert!(note.starts_with("profile: it was measured on a machine of another"), "{note}");
        assert!(note.contains("Model X") && note.contains("numapilot tune"), "{note}");
        // A profile that was written by hand, or measured on an emulated machine.
        assert_eq!(Measured::default().differs(&machine), None);
        assert_eq!(Measured::default().differs_here(), None);
    }
}
