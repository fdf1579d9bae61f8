//! The machine's switch of automatic NUMA balancing (AutoNUMA).
//!
//! Source: Documentation/admin-guide/sysctl/kernel.rst (`numa_balancing`): bit 0 is AutoNUMA, bit 1
//! moves pages between memory tiers. They are independent.

use std::fmt;
use std::fs;

/// The value of `kernel.numa_balancing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoNuma(pub u32);

impl AutoNuma {
    /// The value of the running kernel, or `None` if it has no AutoNUMA.
    #[must_use]
    pub fn read() -> Option<Self> {
        let text = fs::read_to_string("/proc/sys/kernel/numa_balancing").ok()?;
        Some(Self(text.trim().parse().unwrap_or(0)))
    }

    /// Whether pages of all programs without their own policy are sampled and moved to their users.
    #[must_use]
    pub const fn is_on(self) -> bool {
        self.0 & 1 != 0
    }

    /// The value with AutoNUMA on and memory tiering unchanged.
    #[must_use]
    pub const fn on(self) -> Self {
        Self(self.0 | 1)
    }

    /// The value with AutoNUMA off and memory tiering unchanged.
    #[must_use]
    pub const fn off(self) -> Self {
        Self(self.0 & !1)
    }

    /// The command that sets this value.
    #[must_use]
    pub fn command(self) -> String {
        format!("sudo sysctl kernel.numa_balancing={}", self.0)
    }
}

/// `kernel.numa_balancing is 2: pages move between memory tiers only`.
impl fmt::Display for AutoNuma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel.numa_balancing is {}", self.0)?;
        if !self.is_on() && self.0 != 0 {
            f.write_str(": pages move between memory tiers only")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiering_is_no_balancing_and_stays_as_it_is() {
        let on = |value| AutoNuma(value).is_on();
        assert_eq!([0, 1, 2, 3].map(on), [false, true, false, true]);
        assert_eq!([0, 1, 2, 3].map(|value| AutoNuma(value).on().0), [1, 1, 3, 3]);
        assert_eq!([0, 1, 2, 3].map(|value| AutoNuma(value).off().0), [0, 0, 2, 2]);
        assert_eq!(AutoNuma(2).on().command(), "sudo sysctl kernel.numa_balancing=3");
        assert_eq!(AutoNuma(0).to_string(), "kernel.numa_balancing is 0");
        assert!(AutoNuma(2).to_string().ends_with("between memory tiers only"));
        assert!(!AutoNuma(3).to_string().contains("tiers"));
    }
}
