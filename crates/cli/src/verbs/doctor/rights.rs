//! Checks the rights of this process: capabilities, access to other processes, and the settings
//! journal.

use numapilot_place::settings_journal::{Directory, SettingsJournalError};

use super::check::{Check, Files};

/// A capability of capabilities(7) that numapilot can use.
struct Capability {
    name: &'static str,
    bit: u32,
    needed_for: &'static str,
    /// Whether the file of the binary may carry it; then everybody who may execute it gets it.
    for_file: bool,
}

const CAPABILITIES: [Capability; 4] = [
    Capability {
        name: "CAP_SYS_NICE",
        bit: 23,
        needed_for: "placing threads and moving pages of other users' processes",
        for_file: true,
    },
    Capability {
        name: "CAP_SYS_ADMIN",
        bit: 21,
        needed_for: "changing cgroups and machine-wide settings",
        for_file: false,
    },
    Capability {
        name: "CAP_PERFMON",
        bit: 38,
        needed_for: "counting machine-wide and in the kernel where perf_event_paranoid forbids it",
        for_file: true,
    },
    Capability {
        name: "CAP_SYS_PTRACE",
        bit: 19,
        needed_for: "figures (-p) of other users' processes",
        for_file: false,
    },
];

pub fn checks(files: &Files) -> Vec<Check> {
    let effective = effective(files);
    let mut checks: Vec<Check> =
        CAPABILITIES.iter().map(|capability| held(capability, effective)).collect();
    checks.push(ptrace_scope(files, effective));
    checks.push(journal());
    checks
}

/// The effective set of this process; empty if it cannot be read.
fn effective(files: &Files) -> u64 {
    files.status("CapEff").and_then(|set| u64::from_str_radix(&set, 16).ok()).unwrap_or(0)
}

fn has(effective: u64, bit: u32) -> bool {
    effective >> bit & 1 == 1
}

fn held(capability: &Capability, effective: u64) -> Check {
    if has(effective, capability.bit) {
        return Check::works(capability.name, "held");
    }
    let short = capability.name.trim_start_matches("CAP_");
    Check::missing(
        capability.name,
        "not held",
        format!("only needed for {}", capability.needed_for),
        if capability.for_file {
            format!(
                "run as root, or: sudo setcap {}+ep \"$(command -v numapilot)\"; \
                 docker: --cap-add {short}",
                capability.name.to_ascii_lowercase(),
            )
        } else {
            // On the file of a launcher, everybody would have it.
            format!("run as root (sudo), for this alone; docker: --cap-add {short}")
        },
    )
}

/// The settings journal, which records what has to be put back.
fn journal() -> Check {
    const NAME: &str = "settings journal";
    let made = Directory::system("numapilot").and_then(|directory| {
        directory.make()?;
        Ok(directory)
    });
    match made {
        Ok(directory) => Check::works(NAME, format!("tried: {}", directory.path().display())),
        Err(error) => Check::missing(
            NAME,
            "tried: no directory",
            match error {
                SettingsJournalError::NoDirectory { cause } => cause,
                other => other.to_string(),
            },
            "needed by cores, and to change machine-wide settings: set XDG_RUNTIME_DIR to a \
             directory of this user alone (mode 0700), or run as root",
        ),
    }
}

/// Yama (Documentation/admin-guide/LSM/Yama.rst).
fn ptrace_scope(files: &Files, effective: u64) -> Check {
    const NAME: &str = "ptrace_scope";
    let privileged = has(effective, 19);
    let remedy = "sudo sysctl kernel.yama.ptrace_scope=0, or run as root";
    match files.number::<u32>("proc/sys/kernel/yama/ptrace_scope") {
        None => Check::works(NAME, "no Yama: own processes may be attached"),
        Some(0) => Check::works(NAME, "0: own processes may be attached"),
        Some(scope @ (1 | 2)) if privileged => {
            Check::works(NAME, format!("{scope}: all may be attached with CAP_SYS_PTRACE"))
        }
        Some(1) => Check::limited(
            NAME,
            "1: only descendants",
            "programs that numapilot starts can be attached, others of this user cannot",
            remedy,
        ),
        Some(2) => Check::missing(NAME, "2: only with CAP_SYS_PTRACE", "Yama forbids it", remedy),
        Some(scope) => Check::missing(
            NAME,
            format!("{scope}: nobody"),
            "Yama forbids it until the next boot",
            "boot with kernel.yama.ptrace_scope below 3",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::super::check::tests::recorded;
    use super::*;

    fn states(status: &str) -> Vec<(String, State)> {
        let (_dir, files) = recorded(&[("proc/self/status", status)]);
        checks(&files).into_iter().map(|check| (check.name, check.state)).collect()
    }

    #[test]
    fn root_holds_all_and_nobody_none() {
        let root = states("CapEff:\t000001fffeffffff\n");
        assert!(root.iter().all(|(_, state)| *state == State::Works), "{root:?}");
        let nobody = states("CapEff:\t0000000000000000\n");
        let missing = nobody.iter().filter(|(_, state)| *state == State::Missing).count();
        assert_eq!(missing, CAPABILITIES.len(), "{nobody:?}");
        assert_eq!(states("")[0].1, State::Missing);
    }

    #[test]
    fn what_is_as_good_as_root_is_not_put_on_the_binary() {
        for capability in &CAPABILITIES {
            let remedy = held(capability, 0).remedy.unwrap();
            let on_file = ["CAP_SYS_NICE", "CAP_PERFMON"].contains(&capability.name);
            assert_eq!(remedy.contains("setcap"), on_file, "{remedy}");
        }
    }

    #[test]
    fn bits_are_those_of_the_kernel() {
        for (bit, name) in [(23, "CAP_SYS_NICE"), (21, "CAP_SYS_ADMIN"), (38, "CAP_PERFMON")] {
            let held: Vec<String> = states(&format!("CapEff:\t{:016x}\n", 1u64 << bit))
                .into_iter()
                .filter(|(n, state)| n.starts_with("CAP_") && *state == State::Works)
                .map(|(name, _)| name)
                .collect();
            assert_eq!(held, [name]);
        }
    }

    #[test]
    fn yama_has_four_levels() {
        for (scope, plain, privileged) in [
            ("0", State::Works, State::Works),
            ("1", State::Limited, State::Works),
            ("2", State::Missing, State::Works),
            ("3", State::Missing, State::Missing),
        ] {
            let (_dir, files) = recorded(&[("proc/sys/kernel/yama/ptrace_scope", scope)]);
            assert_eq!(ptrace_scope(&files, 0).state, plain, "{scope}");
            assert_eq!(ptrace_scope(&files, 1 << 19).state, privileged, "{scope}");
        }
    }
}
