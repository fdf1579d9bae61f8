//! Selects processes by ID, control group or systemd unit.
//!
//! Source: cgroups(7), proc_pid_cgroup(5), systemd.slice(5), `cg_escape` in systemd's
//! src/basic/cgroup-util.c. Members of a control group are found by the group of each process and
//! not in `cgroup.procs`: no path that a program could have made is followed, and the process that
//! is read is the one whose group was compared.

mod attach;

use std::fmt;

pub use attach::Oneself;
use numapilot_cli_kit::units;
use numapilot_observe::is_kernel_thread;
use procfs::ProcessCGroup;
use procfs::process::{Process, all_processes};

/// Options that name processes.
#[derive(clap::Args)]
pub struct Selection {
    /// These processes and their descendants.
    #[arg(short, long, value_name = "PID", value_delimiter = ',',
          value_parser = units::whole::<i32>(1..))]
    pub pid: Vec<i32>,
    /// The processes of this control group and of those below it, as /proc/PID/cgroup names it
    /// (/system.slice/db.service) or by its directory below /sys/fs/cgroup; may be repeated.
    #[arg(long, value_name = "PATH", value_parser = cgroup)]
    pub cgroup: Vec<String>,
    /// The processes of this unit of the system's systemd; without a suffix, NAME.service; may be
    /// repeated.
    #[arg(long, value_name = "NAME", value_parser = unit)]
    pub unit: Vec<String>,
}

impl Selection {
    /// The selectors, each once.
    pub fn selectors(&self) -> Vec<Selector> {
        let mut all: Vec<Selector> = Vec::new();
        let pids = self.pid.iter().map(|pid| Selector::Pid(*pid));
        let cgroups = self.cgroup.iter().cloned().map(Selector::Cgroup);
        for selector in pids.chain(cgroups).chain(self.unit.iter().cloned().map(Selector::Unit)) {
            if !all.contains(&selector) {
                all.push(selector);
            }
        }
        all
    }
}

/// Selects processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// A process and its descendants.
    Pid(i32),
    /// A control group, as the kernel names it, and those below it.
    Cgroup(String),
    /// A unit, with its suffix.
    Unit(String),
}

/// As the user wrote it.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pid(pid) => write!(f, "{pid}"),
            Self::Cgroup(name) | Self::Unit(name) => f.write_str(name),
        }
    }
}

impl Selector {
    /// The programs that are in the control group or unit at this moment. There are none for a
    /// process ID, which stands for a tree.
    pub fn members(&self) -> Vec<Process> {
        if matches!(self, Self::Pid(_)) {
            return Vec::new();
        }
        // A process that ends meanwhile is left out.
        let processes = all_processes().into_iter().flatten().flatten();
        let is_member = |process: &Process| {
            process.cgroups().is_ok_and(|groups| groups.0.iter().any(|group| self.includes(group)))
                && process.stat().is_ok_and(|stat| !is_kernel_thread(&stat))
        };
        processes.filter(is_member).collect()
    }

    /// Whether this group of a process is the selected one or below it.
    fn includes(&self, group: &ProcessCGroup) -> bool {
        match self {
            Self::Pid(_) => false,
            Self::Cgroup(path) => is_below(&group.pathname, path),
            Self::Unit(name) => is_systemd(group) && is_in_unit(&group.pathname, name),
        }
    }
}

/// The control group of a process: that of version 2, or the one in which systemd or a container's
/// runtime has put it where version 1 is in use.
pub fn cgroup_of(process: &Process) -> Option<String> {
    let groups = process.cgroups().ok()?.0;
    let is_named = |group: &&ProcessCGroup| group.pathname != "/";
    let named = groups.iter().filter(|group| is_systemd(group)).find(is_named);
    let group = named.or_else(|| groups.iter().find(is_named)).or(groups.first())?;
    Some(group.pathname.clone())
}

/// Whether it is in a hierarchy in which systemd makes groups of its units.
fn is_systemd(group: &ProcessCGroup) -> bool {
    group.controllers.iter().all(|name| name.is_empty() || name == "name=systemd")
}

fn is_below(path: &str, group: &str) -> bool {
    let rest = path.strip_prefix(group.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a path leads through slices only to a unit of this name. A user's own manager runs in a
/// service of the system (`user@1000.service`), so the units of users do not match.
fn is_in_unit(path: &str, unit: &str) -> bool {
    let is_unit = |part: &str| part == unit || part.strip_prefix('_') == Some(unit);
    for part in path.split('/').skip(1) {
        if is_unit(part) {
            return true;
        }
        if !part.ends_with(".slice") {
            return false;
        }
    }
    false
}

/// Parses the name of a control group.
fn cgroup(text: &str) -> Result<String, String> {
    const MOUNT: &str = "/sys/fs/cgroup";
    let path = match text.strip_prefix(MOUNT) {
        Some("") => "/",
        Some(below) if below.starts_with('/') => below,
        _ => text,
    };
    if !path.starts_with('/') {
        return Err(
            "a control group begins with /, as in /proc/PID/cgroup; --unit NAME takes the \
                    name of a systemd unit"
                .to_owned(),
        );
    }
    if path.split('/').any(|part| part == "." || part == "..") {
        return Err("the kernel names no control group with . or ..".to_owned());
    }
    let path = path.trim_end_matches('/');
    Ok(if path.is_empty() { "/" } else { path }.to_owned())
}

/// Parses the name of a unit.
fn unit(text: &str) -> Result<String, String> {
    const SUFFIXES: [&str; 3] = [".service", ".scope", ".slice"];
    if text.is_empty() || text.contains('/') {
        return Err("a unit has a name such as db.service; --cgroup takes a path".to_owned());
    }
    let has_suffix = SUFFIXES.iter().any(|suffix| text.ends_with(suffix));
    Ok(if has_suffix { text.to_owned() } else { format!("{text}.service") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_control_groups() {
        for (text, expected) in [
            ("/system.slice/db.service", "/system.slice/db.service"),
            ("/sys/fs/cgroup/system.slice/", "/system.slice"),
            ("/sys/fs/cgroup", "/"),
            ("/sys/fs/cgroups", "/sys/fs/cgroups"),
            ("/", "/"),
        ] {
            assert_eq!(cgroup(text).as_deref(), Ok(expected));
        }
        for wrong in ["", "db", "/a/../b", "/a/."] {
            assert!(cgroup(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_group_contains_itself_and_those_below() {
        for path in ["/a", "/a/b"] {
            assert!(is_below(path, "/a") && is_below(path, "/"));
        }
        assert!(!is_below("/ab", "/a") && !is_below("/", "/a"));
    }

    #[test]
    fn units_of_the_system_and_not_those_of_users() {
        assert_eq!(unit("db").as_deref(), Ok("db.service"));
        assert_eq!(unit("user.slice").as_deref(), Ok("user.slice"));
        assert!(unit("").is_err() && unit("a/b.service").is_err());
        for path in [
            "/system.slice/db.service",
            "/system.slice/db.service/worker",
            "/system.slice/system-db.slice/db.service",
            "/system.slice/_db.service",
        ] {
            assert!(is_in_unit(path, "db.service"), "{path}");
        }
        for path in [
            "/user.slice/user-1000.slice/user@1000.service/app.slice/db.service",
            "/system.slice/other.service/db.service",
            "/system.slice",
            "/",
            "",
        ] {
            assert!(!is_in_unit(path, "db.service"), "{path}");
        }
        assert!(is_in_unit("/user.slice/user-0.slice/a.scope", "user.slice"));
    }

    #[test]
    fn selectors_are_listed_once() {
        let selection = Selection {
            pid: vec![7, 7],
            cgroup: vec!["/a".to_owned()],
            unit: vec!["b.service".to_owned()],
        };
        let names: Vec<String> = selection.selectors().iter().map(Selector::to_string).collect();
        assert_eq!(names, ["7", "/a", "b.service"]);
    }

    #[test]
    fn the_root_group_has_all_programs_and_an_unknown_one_has_none() {
        let own = std::process::id().cast_signed();
        let all = Selector::Cgroup("/".to_owned()).members();
        assert!(all.iter().any(|process| process.pid == own));
        assert!(Selector::Cgroup("/no such group".to_owned()).members().is_empty());
        assert!(Selector::Pid(own).members().is_empty());
    }
}
