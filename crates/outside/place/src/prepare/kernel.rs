//! What the kernel does with the program's pages by itself: transparent huge pages and
//! AutoNUMA. For one program where the kernel can, machine-wide where it cannot.
//!
//! Sources: prctl(2) (`PR_SET_THP_DISABLE` takes huge pages away from one process; there
//! is no call that gives them to one), Documentation/admin-guide/mm/transhuge.rst,
//! Documentation/admin-guide/sysctl/kernel.rst, the GNU C Library manual ("Memory
//! Allocation Tunables").

use std::io;
use std::path::Path;

use numapilot_sys::mempolicy::Mode;
use numapilot_sys::{c_library, prctl};

use super::Prepared;
use crate::allocators::{Found, GLIBC_HUGE_PAGES, HugePages};
use crate::journal::{Change, Journal, Setting};
use crate::{Note, NumaBalancing, Thp};

/// Where the settings of the running kernel are.
const ROOT: &str = "/";

/// First glibc whose malloc has a tunable for huge pages.
const GLIBC_WITH_TUNABLE: (u32, u32) = (2, 35);

impl Prepared {
    pub(super) fn set_thp(&mut self, thp: Thp, allocator: Option<&Found>) {
        match thp {
            Thp::Inherit => {}
            // An error means a kernel without THP: the program has what it asked for.
            Thp::Never => {
                self.steps.thp_disable =
                    (prctl::thp_disabled().ok() == Some(false)).then_some(true);
            }
            Thp::Always => {
                self.steps.thp_disable =
                    (prctl::thp_disabled().ok() == Some(true)).then_some(false);
                self.set_thp_always(allocator);
            }
        }
    }

    fn set_thp_always(&mut self, allocator: Option<&Found>) {
        const SUBJECT: &str = "thp always";
        let root = Path::new(ROOT);
        let now = match Setting::Thp.read(root) {
            Ok(now) => now,
            Err(error) => {
                self.notes.push(Note::new(
                    SUBJECT,
                    format!("this kernel has no transparent huge pages ({error})"),
                    "use a kernel built with CONFIG_TRANSPARENT_HUGEPAGE",
                ));
                return;
            }
        };
        let writable = Setting::Thp.is_writable(root);
        if now == "always" && !(writable && is_borrowed()) {
            return;
        }
        if writable {
            self.settings.push(Change { setting: Setting::Thp, value: "always".to_owned() });
            return;
        }
        let remedy = "run as root, which sets the machine to always for the time of the run, or \
                      have `echo always > /sys/kernel/mm/transparent_hugepage/enabled` done";
        if now != "madvise" {
            let cause = format!("the machine is set to {now}, which no program can override");
            self.notes.push(Note::new(SUBJECT, cause, remedy));
            return;
        }
        let switch = match allocator {
            Some(found) => found.known.map_or(HugePages::NoSwitch, |known| known.huge_pages),
            None if c_library::glibc_version().is_some_and(|v| v >= GLIBC_WITH_TUNABLE) => {
                GLIBC_HUGE_PAGES
            }
            None => HugePages::NoSwitch,
        };
        if !self.environment.huge_pages(switch) {
            self.notes.push(Note::new(
                SUBJECT,
                "the machine is set to madvise, and this allocator has no switch to ask for huge \
                 pages",
                remedy,
            ));
        }
    }

    /// Call after the memory policy is decided: an explicit policy is what keeps AutoNUMA
    /// off one program (see `targets`).
    pub(super) fn set_numa_balancing(&mut self, wanted: NumaBalancing, balancing_flag: bool) {
        let mode = self.steps.memory.as_ref().map(|(mode, ..)| *mode);
        if balancing_flag && !matches!(mode, None | Some(Mode::Bind | Mode::PreferredMany)) {
            self.notes.push(Note::new(
                "memory balancing",
                "the kernel samples memory under bind and preferred-many only",
                "combine -b with -m or -P, or leave it out",
            ));
        }
        match wanted {
            NumaBalancing::Inherit => {}
            NumaBalancing::On => self.set_numa_balancing_on(mode),
            // With an explicit policy nothing is left to do.
            NumaBalancing::Off if mode.is_some() => {}
            NumaBalancing::Off => self.set_machine_balancing("off", |_| 0),
        }
    }

    fn set_numa_balancing_on(&mut self, mode: Option<Mode>) {
        if matches!(
            mode,
            Some(Mode::Local | Mode::Preferred | Mode::Interleave | Mode::WeightedInterleave)
        ) {
            self.notes.push(Note::new(
                "numa-balancing on",
                "the kernel does not sample memory that has this explicit policy",
                "use no memory policy, bind or preferred-many",
            ));
        }
        // kernel.rst: bit 0 is balancing, bit 1 memory tiering, which is kept.
        self.set_machine_balancing("on", |now| now | 1);
    }

    fn set_machine_balancing(&mut self, wanted: &str, value: impl Fn(u32) -> u32) {
        let root = Path::new(ROOT);
        let subject = format!("numa-balancing {wanted}");
        let now = match Setting::NumaBalancing.read(root) {
            // Without AutoNUMA it is off.
            Err(e) if e.kind() == io::ErrorKind::NotFound && wanted == "off" => return,
            Err(error) => {
                self.notes.push(Note::new(
                    subject,
                    format!("this kernel has no AutoNUMA (kernel.numa_balancing: {error})"),
                    "use a kernel built with CONFIG_NUMA_BALANCING",
                ));
                return;
            }
            Ok(now) => now,
        };
        let Ok(number) = now.parse::<u32>() else {
            self.notes.push(Note::new(
                subject,
                format!("kernel.numa_balancing is '{now}', which is not a number"),
                "set it with sysctl",
            ));
            return;
        };
        let value = value(number);
        let writable = Setting::NumaBalancing.is_writable(root);
        if value == number && !(writable && is_borrowed()) {
            return;
        }
        if writable {
            let change = Change { setting: Setting::NumaBalancing, value: value.to_string() };
            self.settings.push(change);
        } else {
            self.notes.push(Note::new(
                subject,
                format!("kernel.numa_balancing is {now} and only root may change it"),
                format!("run as root, or have `sysctl kernel.numa_balancing={value}` done"),
            ));
        }
    }
}

/// Whether the value a setting has now may be another run's, which takes it away when it
/// ends, or left behind by one that died.
fn is_borrowed() -> bool {
    Journal::system().is_ok_and(|journal| !journal.is_empty())
}
