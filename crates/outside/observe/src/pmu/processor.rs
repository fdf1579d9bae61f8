//! The processor model, as event tables name it.
//!
//! Source: `/proc/cpuinfo`; x86 has vendor, family and model, Arm has implementer and
//! part (MIDR_EL1).

use std::fmt;

/// A processor model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    /// `GenuineIntel`.
    Intel {
        /// Display family.
        family: u32,
        /// Display model.
        model: u32,
        /// Stepping, which distinguishes Skylake-SP and Cascade Lake.
        stepping: u32,
    },
    /// `AuthenticAMD`, and Hygon's licensed Zen.
    Amd {
        /// Display family.
        family: u32,
        /// Display model.
        model: u32,
    },
    /// Any Arm; implementer 0x41 is Arm Ltd.
    Arm {
        /// MIDR_EL1 implementer.
        implementer: u32,
        /// MIDR_EL1 part number.
        part: u32,
    },
}

impl Processor {
    /// Parses the first processor of `/proc/cpuinfo`. Returns `None` for any other vendor.
    #[must_use]
    pub fn parse(cpuinfo: &str) -> Option<Self> {
        let field = |name: &str| {
            let mut pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
            pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
        };
        let number = |name: &str| {
            let text = field(name)?;
            match text.strip_prefix("0x") {
                Some(hex) => u32::from_str_radix(hex, 16).ok(),
                None => text.parse().ok(),
            }
        };
        match field("vendor_id") {
            Some("GenuineIntel") => Some(Self::Intel {
                family: number("cpu family")?,
                model: number("model")?,
                stepping: number("stepping").unwrap_or(0),
            }),
            Some("AuthenticAMD" | "HygonGenuine") => {
                Some(Self::Amd { family: number("cpu family")?, model: number("model")? })
            }
            _ => Some(Self::Arm {
                implementer: number("CPU implementer")?,
                part: number("CPU part")?,
            }),
        }
    }
}

impl fmt::Display for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Intel { family, model, stepping } => {
                write!(f, "Intel family {family} model {model:#x} stepping {stepping}")
            }
            Self::Amd { family, model } => write!(f, "AMD family {family:#x} model {model:#x}"),
            Self::Arm { implementer, part } => {
                write!(f, "Arm implementer {implementer:#x} part {part:#x}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use numapilot_test_kit::damaged;
    use proptest::prelude::*;

    use super::*;

    const INTEL: &str = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\n\
                         model\t\t: 85\nmodel name\t: Intel(R) Xeon(R) Platinum 8153 CPU\n\
                         stepping\t: 4\n";

    #[test]
    fn each_vendor() {
        assert_eq!(
            Processor::parse(INTEL),
            Some(Processor::Intel { family: 6, model: 0x55, stepping: 4 })
        );
        let amd = "vendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\n";
        assert_eq!(Processor::parse(amd), Some(Processor::Amd { family: 26, model: 2 }));
        let arm =
            "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd40\n";
        assert_eq!(Processor::parse(arm), Some(Processor::Arm { implementer: 0x41, part: 0xd40 }));
        assert_eq!(Processor::parse("vendor_id : CentaurHauls\ncpu family : 6\n"), None);
        assert_eq!(Processor::parse(""), None);
    }

    proptest! {
        #[test]
        fn a_damaged_file_names_no_other_maker(text in damaged(INTEL)) {
            let read = Processor::parse(&text);
            prop_assert!(matches!(read, None | Some(Processor::Intel { .. })), "{read:?}");
        }
    }
}
