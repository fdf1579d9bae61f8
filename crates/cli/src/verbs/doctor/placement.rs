//! Checks the system calls that place threads and memory.

use std::io;

use super::check::{Check, Files};
use super::trials::{Call, Trials};

pub fn checks(files: &Files) -> Vec<Check> {
    let filtered = files.status("Seccomp").is_some_and(|mode| mode == "2");
    match Trials::run(filtered) {
        Ok(trials) => from(files, &trials, filtered),
        Err(error) => vec![
            Check::missing(
                "threads",
                "none",
                format!("a thread to try the calls in cannot be started: {error}"),
                "raise the limit: ulimit -u, or pids.max of the container",
            )
            .essential(),
        ],
    }
}

fn from(files: &Files, trials: &Trials, filtered: bool) -> Vec<Check> {
    let call = |call: Call| answered(call.name(), trials.of(call), filtered);
    vec![
        call(Call::Affinity).essential(),
        call(Call::SetMempolicy).essential(),
        call(Call::Mbind),
        call(Call::MovePages),
        move_shared(trials, filtered),
        weighted_interleave(files, trials, filtered),
        seccomp(files, trials),
        thp_switch(trials.of(Call::ThpSwitch), filtered),
    ]
}

/// The check of a call that every kernel with CONFIG_NUMA has.
fn answered(name: &str, result: &io::Result<()>, filtered: bool) -> Check {
    match result {
        Ok(()) => Check::works(name, "tried: permitted"),
        Err(error) => {
            let (cause, remedy) = match error.raw_os_error() {
                // No error number: the filter killed the process.
                Some(libc::EPERM | libc::EACCES | libc::ENOSYS) | None if filtered => (
                    format!("{error}: refused by the seccomp filter of this container or service"),
                    "docker: --cap-add SYS_NICE (its default filter then permits the call) or \
                     --security-opt seccomp=unconfined; systemd: SystemCallFilter=@resources",
                ),
                Some(libc::ENOSYS) => (
                    format!("{error}: the kernel is built without it"),
                    "boot a distribution kernel, which has CONFIG_NUMA=y and CONFIG_MIGRATION=y",
                ),
                _ => (error.to_string(), "see dmesg and the limits of this container"),
            };
            Check::missing(name, "tried: refused", cause, remedy)
        }
    }
}

/// Moving pages that other processes map too.
fn move_shared(trials: &Trials, filtered: bool) -> Check {
    const NAME: &str = Call::MoveShared.name();
    let trial = trials.of(Call::MoveShared);
    match (trial, trials.of(Call::MovePages)) {
        (Err(error), Ok(())) if error.raw_os_error() == Some(libc::EPERM) => Check::limited(
            NAME,
            "tried: refused",
            "needs CAP_SYS_NICE; pages that one process alone maps can be moved",
            "run as root, or: sudo setcap cap_sys_nice+ep \"$(command -v numapilot)\"",
        ),
        _ => answered(NAME, trial, filtered),
    }
}

fn weighted_interleave(files: &Files, trials: &Trials, filtered: bool) -> Check {
    const NAME: &str = Call::WeightedInterleave.name();
    const WEIGHTS: &str = "sys/kernel/mm/mempolicy/weighted_interleave";
    let trial = trials.of(Call::WeightedInterleave);
    match (trial, trials.of(Call::SetMempolicy)) {
        (Err(error), Ok(())) if error.raw_os_error() == Some(libc::EINVAL) => Check::missing(
            NAME,
            "tried: unknown to the kernel",
            "this kernel does not have the mode (it came with 6.9)",
            "boot 6.9 or later; until then plain interleave (-i) spreads pages evenly",
        ),
        (Err(_), _) => answered(NAME, trial, filtered),
        (Ok(()), _) => {
            let weights: Vec<String> = files
                .names(WEIGHTS)
                .iter()
                .filter_map(|name| {
                    let node = name.strip_prefix("node")?;
                    Some(format!("{node}:{}", files.text(format!("{WEIGHTS}/{name}"))?))
                })
                .collect();
            let found = match weights.len() {
                0 => "tried: permitted; weights not shown".to_owned(),
                _ => format!("tried: permitted; weights {}", weights.join(" ")),
            };
            let first = files.names(WEIGHTS).into_iter().find(|name| name.starts_with("node"));
            match first {
                Some(name) if files.writable(format!("{WEIGHTS}/{name}")) => {
                    Check::works(NAME, found)
                }
                _ => Check::limited(
                    NAME,
                    found,
                    "the weights are machine-wide and this user may not change them",
                    "as root: echo WEIGHT > /sys/kernel/mm/mempolicy/weighted_interleave/nodeN",
                ),
            }
        }
    }
}

fn seccomp(files: &Files, trials: &Trials) -> Check {
    let mode = files.status("Seccomp");
    let found = match mode.as_deref() {
        Some("0") => return Check::works("seccomp", "no filter"),
        Some("1") => "strict mode",
        Some("2") => "filter",
        _ => return Check::works("seccomp", "not in this kernel"),
    };
    let refused: Vec<&str> = [Call::Affinity, Call::SetMempolicy, Call::Mbind, Call::MovePages]
        .into_iter()
        .filter(|call| trials.of(*call).is_err())
        .map(Call::name)
        .collect();
    if refused.is_empty() {
        return Check::works("seccomp", format!("{found}; lets the calls above pass"));
    }
    Check::limited(
        "seccomp",
        found,
        format!("refuses {}", refused.join(", ")),
        "docker: --cap-add SYS_NICE, or --security-opt seccomp=unconfined",
    )
}

/// `prctl(PR_SET_THP_DISABLE)`: huge pages off for one program.
fn thp_switch(trial: &io::Result<()>, filtered: bool) -> Check {
    const NAME: &str = Call::ThpSwitch.name();
    match trial {
        Ok(()) => Check::works(NAME, "tried: prctl(PR_SET_THP_DISABLE) permitted"),
        Err(error) if filtered => Check::missing(
            NAME,
            "tried: refused",
            format!(
                "prctl(PR_SET_THP_DISABLE): {error}: refused by the seccomp filter of this \
                 container or service; --thp never has no effect here"
            ),
            "docker: --security-opt seccomp=FILE with a filter that permits it",
        ),
        Err(error) => Check::missing(
            NAME,
            "tried: refused",
            format!("prctl(PR_SET_THP_DISABLE): {error}"),
            "boot a kernel with CONFIG_TRANSPARENT_HUGEPAGE=y",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::super::check::tests::recorded;
    use super::*;

    fn errno(number: i32) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(number))
    }

    /// Trials in which all calls succeed except the given ones.
    fn trials(refused: &[(Call, i32)]) -> Trials {
        Trials::with(|call| match refused.iter().find(|(c, _)| *c == call) {
            Some((_, number)) => errno(*number),
            None => Ok(()),
        })
    }

    #[test]
    fn a_refusal_under_a_filter_names_the_filter() {
        let check = answered("mbind", &errno(libc::EPERM), true);
        assert_eq!(check.state, State::Missing);
        assert!(check.cause.unwrap().contains("seccomp"));
        assert!(check.remedy.unwrap().contains("SYS_NICE"));
        let check = answered("mbind", &Err(io::Error::other("killed")), true);
        assert!(check.cause.unwrap().contains("seccomp"));
        let check = answered("mbind", &errno(libc::ENOSYS), false);
        assert!(check.cause.unwrap().contains("built without"));
        assert_eq!(answered("mbind", &Ok(()), true).state, State::Works);
    }

    #[test]
    fn a_filter_that_refuses_the_page_switch_is_named() {
        for number in [libc::EPERM, libc::ENOSYS, libc::EINVAL] {
            assert!(thp_switch(&errno(number), true).cause.unwrap().contains("seccomp"));
        }
        let check = thp_switch(&errno(libc::EINVAL), false);
        assert!(check.remedy.unwrap().contains("CONFIG_TRANSPARENT_HUGEPAGE"));
    }

    #[test]
    fn an_old_kernel_is_distinguished_from_a_filter() {
        let (_dir, files) = recorded(&[]);
        let old = trials(&[(Call::WeightedInterleave, libc::EINVAL)]);
        let check = weighted_interleave(&files, &old, false);
        assert!(check.remedy.unwrap().contains("6.9"));
        let filter =
            trials(&[(Call::WeightedInterleave, libc::EPERM), (Call::SetMempolicy, libc::EPERM)]);
        let check = weighted_interleave(&files, &filter, true);
        assert_eq!(check.state, State::Missing);
        assert!(check.cause.unwrap().contains("seccomp"));
    }

    #[test]
    fn shared_pages_need_a_capability() {
        let check = move_shared(&trials(&[(Call::MoveShared, libc::EPERM)]), false);
        assert_eq!(check.state, State::Limited);
        assert!(check.remedy.unwrap().contains("setcap cap_sys_nice+ep"));
        let neither = [(Call::MoveShared, libc::EPERM), (Call::MovePages, libc::EPERM)];
        assert_eq!(move_shared(&trials(&neither), true).state, State::Missing);
        assert_eq!(move_shared(&trials(&[]), false).state, State::Works);
    }

    #[test]
    fn weights_are_shown() {
        let dir = "sys/kernel/mm/mempolicy/weighted_interleave";
        let (_dir, files) = recorded(&[
            (&format!("{dir}/node0"), "3\n"),
            (&format!("{dir}/node2"), "1\n"),
            (&format!("{dir}/auto"), "true\n"),
        ]);
        let check = weighted_interleave(&files, &trials(&[]), false);
        assert_eq!(check, Check::works("weighted interleave", "tried: permitted; weights 0:3 2:1"));
        let (_dir, files) = recorded(&[]);
        assert_eq!(weighted_interleave(&files, &trials(&[]), false).state, State::Limited);
    }

    #[test]
    fn a_filter_that_lets_the_calls_pass_is_no_limit() {
        let (_dir, files) = recorded(&[("proc/self/status", "Seccomp:\t2\n")]);
        assert_eq!(seccomp(&files, &trials(&[])).state, State::Works);
        let check = seccomp(&files, &trials(&[(Call::Mbind, libc::EPERM)]));
        assert_eq!(check.cause.as_deref(), Some("refuses mbind"));
        let (_dir, files) = recorded(&[("proc/self/status", "Seccomp:\t0\n")]);
        assert_eq!(seccomp(&files, &trials(&[])).found, "no filter");
    }
}
