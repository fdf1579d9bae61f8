//! The kernel's automatic handling of the program's pages: transparent huge pages and AutoNUMA.
//! They are set for one program if the kernel supports that, otherwise machine-wide.
//!
//! Sources: prctl(2) (`PR_SET_THP_DISABLE` disables huge pages for one process; no call enables
//! them for one process), Documentation/admin-guide/mm/transhuge.rst,
//! Documentation/admin-guide/sysctl/kernel.rst, the GNU C Library manual ("Memory Allocation
//! Tunables").

use std::io;
use std::path::Path;

use numapilot_observe::AutoNuma;
use numapilot_sys::c_library;
use numapilot_sys::mempolicy::Mode;
use numapilot_sys::prctl::{self, ThpSwitch};

use super::Prepared;
use crate::allocators::{Found, GLIBC_HUGE_PAGES, HugePages};
use crate::environment::HugePageRequest;
use crate::huge_pages::{Choice, Switches};
use crate::settings_journal::{Change, Setting, SettingsJournal, SettingsJournalError};
use crate::{Note, NumaBalancing, Thp};

/// The root directory of the running kernel's settings.
const ROOT: &str = "/";

const ALWAYS: &str = "thp always";

/// The first glibc whose malloc has a tunable for huge pages.
const GLIBC_WITH_TUNABLE: (u32, u32) = (2, 35);

impl Prepared {
    pub(super) fn set_thp(&mut self, thp: Thp, allocator: Option<&Found>) {
        let switches = Switches::read(Path::new(ROOT));
        match (thp, switches) {
            (Thp::Inherit, _) => {}
            (Thp::Never, switches) => {
                // On a machine without huge pages the plan is in effect already.
                let none = switches.is_none_or(|switches| switches.most() == Choice::Never);
                match switched(ThpSwitch::Disabled) {
                    Ok(step) => self.steps.thp = step,
                    Err(_) if none => {}
                    Err(error) => self.notes.push(Note::new(
                        "thp never",
                        format!("{}, so the program keeps huge pages", refused_switch(&error)),
                        "allow prctl(PR_SET_THP_DISABLE) in the filter, or let root run `echo \
                         never > /sys/kernel/mm/transparent_hugepage/enabled`",
                    )),
                }
            }
            (Thp::Always, None) => self.notes.push(Note::new(
                ALWAYS,
                "this kernel has no transparent huge pages",
                "use a kernel built with CONFIG_TRANSPARENT_HUGEPAGE",
            )),
            (Thp::Always, Some(switches)) => {
                match switched(ThpSwitch::Enabled) {
                    Ok(step) => self.steps.thp = step,
                    Err(error) if prctl::thp_switch().is_ok() => self.notes.push(Note::new(
                        ALWAYS,
                        format!(
                            "this process was started with huge pages switched off, and {}",
                            refused_switch(&error)
                        ),
                        "start numapilot from a program that has not switched them off",
                    )),
                    // If reading the switch is refused, it is most likely on.
                    Err(_) => {}
                }
                self.set_thp_always(&switches, allocator);
            }
        }
    }

    fn set_thp_always(&mut self, switches: &Switches, allocator: Option<&Found>) {
        let writable = self.may_write(Setting::Thp);
        if switches.pmd() == Choice::Always && !(writable && is_borrowed()) {
            return;
        }
        if writable {
            if switches.with_top(Choice::Always).pmd() == Choice::Always {
                if let Err(error) = may_change() {
                    let cause = format!("the machine stays set to {switches}: {error}");
                    self.notes.push(Note::new(ALWAYS, cause, FREE));
                    return;
                }
                let value = Choice::Always.name().to_owned();
                self.settings.push(Change { setting: Setting::Thp, value });
                return;
            }
            let size = switches.pmd_bytes / 1024;
            self.notes.push(Note::new(
                ALWAYS,
                format!(
                    "huge pages of {size} kB have their own switch, at {}, which the switch for \
                     all sizes does not change",
                    switches.pmd().name()
                ),
                switches.inherit_command(),
            ));
            return;
        }
        let remedy = self.or_by_root(
            "run as root, which sets the machine to always during the run",
            "echo always > /sys/kernel/mm/transparent_hugepage/enabled",
        );
        match switches.most() {
            // All programs get pages of a smaller size.
            Choice::Always => return,
            Choice::Madvise => {}
            Choice::Never => {
                let cause =
                    format!("the machine is set to {switches}, which no program can override");
                self.notes.push(Note::new(ALWAYS, cause, remedy));
                return;
            }
        }
        let switch = match allocator {
            Some(found) => found.known.map_or(HugePages::NoSwitch, |known| known.huge_pages),
            None if c_library::glibc_version().is_some_and(|v| v >= GLIBC_WITH_TUNABLE) => {
                GLIBC_HUGE_PAGES
            }
            None => HugePages::NoSwitch,
        };
        let why_not = match self.environment.huge_pages(switch) {
            HugePageRequest::Made => return,
            HugePageRequest::NoSwitch => {
                "this allocator has no switch to request huge pages".to_owned()
            }
            HugePageRequest::UpTo(variable) => {
                format!("your own {variable} decides whether this allocator requests huge pages")
            }
        };
        let cause = format!("the machine is set to {switches}, and {why_not}");
        self.notes.push(Note::new(ALWAYS, cause, remedy));
    }

    /// Must be called after the memory policy is set, because an explicit policy switches AutoNUMA
    /// off for one program (see `targets`).
    pub(super) fn set_numa_balancing(&mut self, wanted: NumaBalancing, balancing_flag: bool) {
        let mode = self.steps.memory.as_ref().map(|(mode, ..)| *mode);
        if balancing_flag && !matches!(mode, None | Some(Mode::Bind | Mode::PreferredMany)) {
            self.notes.push(not_sampled());
        } else if balancing_flag
            && wanted != NumaBalancing::On
            && let Some(now) = AutoNuma::read().filter(|now| !now.is_on())
        {
            self.notes.push(Note::new(
                "memory balancing",
                format!("{now}, so no memory is sampled"),
                format!("--numa-balancing on as root, or {}", now.on().command()),
            ));
        }
        match wanted {
            NumaBalancing::Inherit => {}
            NumaBalancing::On => self.set_numa_balancing_on(mode),
            // An explicit policy suffices.
            NumaBalancing::Off if mode.is_some() => {}
            NumaBalancing::Off => self.set_machine_balancing("off", AutoNuma::off),
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
        self.set_machine_balancing("on", AutoNuma::on);
    }

    fn set_machine_balancing(&mut self, wanted: &str, value: impl Fn(AutoNuma) -> AutoNuma) {
        let root = Path::new(ROOT);
        let subject = format!("numa-balancing {wanted}");
        let now = match Setting::NumaBalancing.read(root) {
            // A kernel without AutoNUMA does not balance.
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
        let AutoNuma(value) = value(AutoNuma(number));
        let writable = self.may_write(Setting::NumaBalancing);
        if value == number && !(writable && is_borrowed()) {
            return;
        }
        if writable {
            if let Err(error) = may_change() {
                let cause = format!("{} stays {now}: {error}", Setting::NumaBalancing);
                self.notes.push(Note::new(subject, cause, FREE));
                return;
            }
            let change = Change { setting: Setting::NumaBalancing, value: value.to_string() };
            self.settings.push(change);
        } else {
            let remedy =
                self.or_by_root("run as root", &format!("sysctl kernel.numa_balancing={value}"));
            let why = match self.supervised {
                true => "only root may change it",
                false => {
                    "settings of the whole machine are not changed where nothing restores them"
                }
            };
            let cause = format!("kernel.numa_balancing is {now}, and {why}");
            self.notes.push(Note::new(subject, cause, remedy));
        }
    }
}

/// The note for memory balancing under a policy that excludes it.
pub(crate) fn not_sampled() -> Note {
    Note::new(
        "memory balancing",
        "the kernel samples memory only under bind and preferred-many",
        "combine -b with -m or -P, or leave it out",
    )
}

impl Prepared {
    /// Whether a machine-wide setting may be changed for the time of the program.
    fn may_write(&self, setting: Setting) -> bool {
        self.supervised && setting.is_writable(Path::new(ROOT))
    }

    /// The remedy for a machine-wide setting: what the user does, where that helps, or what root
    /// runs.
    fn or_by_root(&self, user: &str, command: &str) -> String {
        let root = format!("let root run `{command}`");
        if self.supervised { format!("{user}, or {root}") } else { root }
    }
}

/// The switch to set for a program, or `None` if it inherits the right one. It is tried here and
/// undone, because a filter may refuse the call or make it ineffective.
fn switched(wanted: ThpSwitch) -> io::Result<Option<ThpSwitch>> {
    let before = prctl::thp_switch()?;
    if before == wanted {
        return Ok(None);
    }
    prctl::set_thp_switch(wanted)?;
    let after = prctl::thp_switch();
    prctl::set_thp_switch(before)?;
    if after? == wanted {
        Ok(Some(wanted))
    } else {
        Err(io::Error::other("it was accepted but has no effect"))
    }
}

fn refused_switch(error: &io::Error) -> String {
    format!("prctl(PR_SET_THP_DISABLE) is refused ({error}; a seccomp filter, as in containers)")
}

/// The remedy if the journal cannot be written.
const FREE: &str = "make it a directory with free space that only this user can access, or change \
                    the setting beforehand";

/// Checks that a machine-wide setting may be changed: the journal from which it is restored must be
/// writable. Other obstacles are found when the program is started.
fn may_change() -> Result<(), String> {
    // An entry without settings does not block another run.
    let cause = match SettingsJournal::system().and_then(|journal| journal.reserve(&[], "")) {
        Err(SettingsJournalError::NoDirectory { cause }) => cause,
        Err(SettingsJournalError::File { path, source }) => format!("{}: {source}", path.display()),
        Ok(_) | Err(_) => return Ok(()),
    };
    Err(format!("the journal from which it would be restored cannot be written ({cause})"))
}

/// Whether the present value of a setting may belong to another run, which restores the old value
/// when it ends, or to one that died.
fn is_borrowed() -> bool {
    SettingsJournal::system().is_ok_and(|journal| !journal.is_empty())
}
