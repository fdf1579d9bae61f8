//! Values that a description writes as text: sizes with a unit, the CPUs that share a cache, lists
//! of ids.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A number of bytes, written with a binary unit: `"512 KiB"`, `"16 GiB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ByteSize(pub u64);

const UNITS: [(&str, u32); 6] =
    [("B", 0), ("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("PiB", 50)];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(end);
        let bad = || {
            format!(
                "'{text}' is not a size; write a number and B, KiB, MiB, GiB or TiB: \"16 GiB\""
            )
        };
        let (_, shift) = UNITS.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(bad)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let whole: u64 = whole.parse().map_err(|_| bad())?;
        let bytes = whole.checked_mul(1 << shift).ok_or_else(bad)?;
        if fraction.is_empty() {
            return if number.contains('.') { Err(bad()) } else { Ok(Self(bytes)) };
        }
        // Only exact numbers are accepted: "1.5 MiB" is a size, but "0.3 KiB" is not a whole number
        // of bytes.
        let digits: u64 = fraction.parse().map_err(|_| bad())?;
        let scale = u32::try_from(fraction.len())
            .ok()
            .and_then(|n| 10u64.checked_pow(n))
            .ok_or_else(bad)?;
        let part = digits.checked_mul(1 << shift).ok_or_else(bad)?;
        if part % scale != 0 {
            return Err(bad());
        }
        Ok(Self(bytes.checked_add(part / scale).ok_or_else(bad)?))
    }
}

/// Writes the size in the largest unit that divides it, so that it reads back exactly.
impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, shift) = UNITS
            .iter()
            .rev()
            .find(|(_, shift)| self.0 != 0 && self.0.trailing_zeros() >= *shift)
            .unwrap_or(&UNITS[0]);
        write!(f, "{} {unit}", self.0 >> shift)
    }
}

/// Which CPUs share one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SharedBy {
    /// Each CPU has its own.
    Cpu,
    /// The SMT threads of a core.
    Core,
    /// This many neighbouring cores of a node: `"4 cores"`.
    Cores(u32),
    /// All CPUs of a node.
    Node,
    /// All CPUs of a package.
    Package,
}

impl FromStr for SharedBy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "cpu" => Ok(Self::Cpu),
            "core" => Ok(Self::Core),
            "node" => Ok(Self::Node),
            "package" => Ok(Self::Package),
            _ => text
                .strip_suffix(" cores")
                .and_then(|n| n.parse().ok())
                .filter(|n| *n > 0)
                .map(Self::Cores)
                .ok_or_else(|| {
                    format!(
                        "'{text}' does not say which CPUs share the cache; write \"cpu\", \"core\", \
                         \"4 cores\", \"node\" or \"package\""
                    )
                }),
        }
    }
}

impl fmt::Display for SharedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Core => f.write_str("core"),
            Self::Cores(n) => write!(f, "{n} cores"),
            Self::Node => f.write_str("node"),
            Self::Package => f.write_str("package"),
        }
    }
}

macro_rules! text_conversions {
    ($($name:ident),*) => {$(
        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    )*};
}

text_conversions!(ByteSize, SharedBy);

/// Serde form of an id set as a list: `"0-3,8"`.
pub mod list {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::NodeSet;

    /// Writes the list.
    pub fn serialize<S: Serializer>(set: &NodeSet, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(set)
    }

    /// Reads the list.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NodeSet, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_exact() {
        assert_eq!("16 GiB".parse(), Ok(ByteSize(16 << 30)));
        assert_eq!("13.75 MiB".parse(), Ok(ByteSize(14_417_920)));
        assert_eq!(ByteSize(14_417_920).to_string(), "14080 KiB");
        assert_eq!(ByteSize(0).to_string(), "0 B");
        for bad in ["", "16", "16 GB", "1. GiB", ".5 GiB", "-1 KiB", "0.3 KiB", "99999999 PiB"] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad}");
        }
    }

    #[test]
    fn sharers_are_read_and_written_alike() {
        for text in ["cpu", "core", "8 cores", "node", "package"] {
            assert_eq!(text.parse::<SharedBy>().unwrap().to_string(), text);
        }
        assert!("0 cores".parse::<SharedBy>().is_err());
        assert!("socket".parse::<SharedBy>().unwrap_err().contains("\"package\""));
    }

    proptest! {
        #[test]
        fn sizes_survive_writing(bytes: u64) {
            prop_assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }

        #[test]
        fn any_text_is_a_size_or_refused(text in "[0-9.]{0,30} ?[KMGTP]?i?B?") {
            let _ = text.parse::<ByteSize>();
        }
    }
}
