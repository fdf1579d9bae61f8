//! Placing threads and memory: every system call is made for real, in a thread of its own
//! (policy and affinity belong to the thread), and what the kernel answers is shown.

use std::io;
use std::thread;

use numapilot_sys::mapping::Mapping;
use numapilot_sys::mempolicy::{self, Mode};
use numapilot_sys::{affinity, prctl};

use super::check::{Check, Files};

/// What the kernel answered to each call.
struct Trials {
    affinity: io::Result<()>,
    set_mempolicy: io::Result<()>,
    mbind: io::Result<()>,
    move_pages: io::Result<()>,
    move_shared: io::Result<()>,
    weighted: io::Result<()>,
    thp_switch: io::Result<()>,
}

impl Trials {
    /// Makes the calls in a thread that ends afterwards, so that nothing of it stays.
    fn run() -> io::Result<Self> {
        thread::Builder::new()
            .spawn(|| {
                let thp_before = prctl::thp_disabled();
                Self {
                    affinity: affinity::get(0).and_then(|mask| affinity::set(0, &mask)),
                    set_mempolicy: policy(Mode::Interleave),
                    mbind: mbind(),
                    move_pages: move_pages(mempolicy::MF_MOVE),
                    move_shared: move_pages(mempolicy::MF_MOVE_ALL),
                    weighted: policy(Mode::WeightedInterleave),
                    // Of the process, not of the thread: set to what it is.
                    thp_switch: thp_before.and_then(prctl::set_thp_disable),
                }
            })?
            .join()
            .map_err(|_| io::Error::other("the thread that tries the calls panicked"))
    }
}

fn policy(mode: Mode) -> io::Result<()> {
    mempolicy::mems_allowed().and_then(|nodes| mempolicy::set_mempolicy(mode, 0, &nodes))
}

fn mbind() -> io::Result<()> {
    let nodes = mempolicy::mems_allowed()?;
    mempolicy::bind(&Mapping::anonymous(1 << 16)?, Mode::Bind, &nodes, 0)
}

/// Moves a page to the node it is on: the whole way through the call, and harmless.
fn move_pages(flags: u32) -> io::Result<()> {
    let mut page = Mapping::anonymous(4096)?;
    page.as_mut_slice()[0] = 1;
    let address = [page.as_ptr() as usize];
    let node = mempolicy::move_pages(0, &address, None, 0)?[0];
    if node < 0 {
        return Err(io::Error::from_raw_os_error(-node));
    }
    let status = mempolicy::move_pages(0, &address, Some(&[node]), flags)?[0];
    if status < 0 { Err(io::Error::from_raw_os_error(-status)) } else { Ok(()) }
}

pub fn checks(files: &Files) -> Vec<Check> {
    match Trials::run() {
        Ok(trials) => from(files, &trials),
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

fn from(files: &Files, trials: &Trials) -> Vec<Check> {
    let filtered = files.status("Seccomp").is_some_and(|mode| mode != "0");
    let call = |name: &str, result: &io::Result<()>| call(name, result, filtered);
    vec![
        call("sched_setaffinity", &trials.affinity).essential(),
        call("set_mempolicy", &trials.set_mempolicy).essential(),
        call("mbind", &trials.mbind),
        call("move_pages", &trials.move_pages),
        move_shared(&trials.move_shared, &trials.move_pages, filtered),
        weighted_interleave(files, &trials.weighted, &trials.set_mempolicy, filtered),
        seccomp(files, trials),
        thp_switch(&trials.thp_switch),
    ]
}

/// A call that every kernel with CONFIG_NUMA has.
fn call(name: &str, result: &io::Result<()>, filtered: bool) -> Check {
    match result {
        Ok(()) => Check::works(name, "tried: permitted"),
        Err(error) => {
            let (cause, remedy) = match error.raw_os_error() {
                Some(libc::EPERM | libc::EACCES | libc::ENOSYS) if filtered => (
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
fn move_shared(trial: &io::Result<()>, private: &io::Result<()>, filtered: bool) -> Check {
    const NAME: &str = "move shared pages";
    match (trial, private) {
        (Err(error), Ok(())) if error.raw_os_error() == Some(libc::EPERM) => Check::limited(
            NAME,
            "tried: refused",
            "needs CAP_SYS_NICE; pages that one process alone maps can be moved",
            "run as root, or: sudo setcap cap_sys_nice+ep \"$(command -v numapilot)\"",
        ),
        _ => call(NAME, trial, filtered),
    }
}

fn weighted_interleave(
    files: &Files,
    trial: &io::Result<()>,
    plain: &io::Result<()>,
    filtered: bool,
) -> Check {
    const NAME: &str = "weighted interleave";
    const WEIGHTS: &str = "sys/kernel/mm/mempolicy/weighted_interleave";
    match (trial, plain) {
        (Err(error), Ok(())) if error.raw_os_error() == Some(libc::EINVAL) => Check::missing(
            NAME,
            "tried: unknown to the kernel",
            "this kernel does not have the mode (it came with 6.9)",
            "boot 6.9 or later; until then plain interleave (-i) spreads pages evenly",
        ),
        (Err(_), _) => call(NAME, trial, filtered),
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
    let refused: Vec<&str> = [
        ("sched_setaffinity", &trials.affinity),
        ("set_mempolicy", &trials.set_mempolicy),
        ("mbind", &trials.mbind),
        ("move_pages", &trials.move_pages),
    ]
    .into_iter()
    .filter(|(_, result)| result.is_err())
    .map(|(name, _)| name)
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
fn thp_switch(trial: &io::Result<()>) -> Check {
    const NAME: &str = "huge pages per program";
    match trial {
        Ok(()) => Check::works(NAME, "tried: prctl(PR_SET_THP_DISABLE) permitted"),
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

    #[test]
    fn trying_leaves_policy_and_affinity_alone() {
        let before = (affinity::get(0).unwrap(), mempolicy::get_mempolicy().unwrap());
        let thp = prctl::thp_disabled().unwrap();
        Trials::run().unwrap();
        assert_eq!((affinity::get(0).unwrap(), mempolicy::get_mempolicy().unwrap()), before);
        assert_eq!(prctl::thp_disabled().unwrap(), thp);
    }

    #[test]
    fn a_refusal_under_a_filter_names_the_filter() {
        let check = call("mbind", &errno(libc::EPERM), true);
        assert_eq!(check.state, State::Missing);
        assert!(check.cause.unwrap().contains("seccomp"));
        assert!(check.remedy.unwrap().contains("SYS_NICE"));
        let check = call("mbind", &errno(libc::ENOSYS), false);
        assert!(check.cause.unwrap().contains("built without"));
        assert_eq!(call("mbind", &Ok(()), true).state, State::Works);
    }

    #[test]
    fn an_old_kernel_is_told_from_a_filter() {
        let (_dir, files) = recorded(&[]);
        let check = weighted_interleave(&files, &errno(libc::EINVAL), &Ok(()), false);
        assert!(check.remedy.unwrap().contains("6.9"));
        let check = weighted_interleave(&files, &errno(libc::EPERM), &errno(libc::EPERM), true);
        assert_eq!((check.name.as_str(), check.state), ("weighted interleave", State::Missing));
        assert!(check.cause.unwrap().contains("seccomp"));
    }

    #[test]
    fn shared_pages_need_a_capability() {
        let check = move_shared(&errno(libc::EPERM), &Ok(()), false);
        assert_eq!(check.state, State::Limited);
        assert!(check.remedy.unwrap().contains("setcap cap_sys_nice+ep"));
        assert_eq!(
            move_shared(&errno(libc::EPERM), &errno(libc::EPERM), true).state,
            State::Missing
        );
        assert_eq!(move_shared(&Ok(()), &Ok(()), false).state, State::Works);
    }

    #[test]
    fn weights_are_shown() {
        let dir = "sys/kernel/mm/mempolicy/weighted_interleave";
        let (_dir, files) = recorded(&[
            (&format!("{dir}/node0"), "3\n"),
            (&format!("{dir}/node2"), "1\n"),
            (&format!("{dir}/auto"), "true\n"),
        ]);
        let check = weighted_interleave(&files, &Ok(()), &Ok(()), false);
        assert_eq!(check, Check::works("weighted interleave", "tried: permitted; weights 0:3 2:1"));
        let (_dir, files) = recorded(&[]);
        let check = weighted_interleave(&files, &Ok(()), &Ok(()), false);
        assert_eq!(check.state, State::Limited);
    }

    #[test]
    fn a_filter_that_lets_the_calls_pass_is_no_limit() {
        let trials = |mbind| Trials {
            affinity: Ok(()),
            set_mempolicy: Ok(()),
            mbind,
            move_pages: Ok(()),
            move_shared: Ok(()),
            weighted: Ok(()),
            thp_switch: Ok(()),
        };
        let (_dir, files) = recorded(&[("proc/self/status", "Seccomp:\t2\n")]);
        assert_eq!(seccomp(&files, &trials(Ok(()))).state, State::Works);
        let check = seccomp(&files, &trials(errno(libc::EPERM)));
        assert_eq!(check.cause.as_deref(), Some("refuses mbind"));
        let (_dir, files) = recorded(&[("proc/self/status", "Seccomp:\t0\n")]);
        assert_eq!(seccomp(&files, &trials(Ok(()))).found, "no filter");
    }
}
