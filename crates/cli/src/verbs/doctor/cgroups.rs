//! Checks control groups: the version, whether the cpuset controller can be used, and whether this
//! process may make a group (by trying).
//!
//! Source: Documentation/admin-guide/cgroup-v2.rst, cgroups(7), proc_pid_mountinfo(5).

use std::fs;
use std::io;
use std::path::PathBuf;

use super::check::{Check, Files};

pub fn checks(files: &Files) -> Vec<Check> {
    vec![cgroup(files, make_group)]
}

/// A mounted hierarchy and this process's place in it.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    /// Directory of the process's own group, without leading slash.
    directory: PathBuf,
    /// Whether it has the cpuset controller.
    cpuset: bool,
}

/// The unified hierarchy (v2).
fn unified(files: &Files) -> Option<Group> {
    let own = own_path(files, |controllers| controllers.is_empty())?;
    let (root, mount) =
        mounts(files).into_iter().find(|m| m.kind == "cgroup2").map(|m| (m.root, m.point))?;
    let directory = join(&mount, &root, &own);
    let controllers = files.text(directory.join("cgroup.controllers"))?;
    Some(Group { cpuset: controllers.split_whitespace().any(|c| c == "cpuset"), directory })
}

/// The v1 hierarchy that has the cpuset controller.
fn cpuset_v1(files: &Files) -> Option<Group> {
    let own = own_path(files, |controllers| controllers.split(',').any(|c| c == "cpuset"))?;
    let mount = mounts(files)
        .into_iter()
        .find(|m| m.kind == "cgroup" && m.options.split(',').any(|o| o == "cpuset"))?;
    Some(Group { directory: join(&mount.point, &mount.root, &own), cpuset: true })
}

/// This process's path in the hierarchy whose controllers match (`/proc/self/cgroup`).
fn own_path(files: &Files, matches: impl Fn(&str) -> bool) -> Option<String> {
    files.text("proc/self/cgroup")?.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        matches(controllers).then(|| fields.next().map(str::to_owned)).flatten()
    })
}

/// A cgroup mount of `/proc/self/mountinfo`.
struct Mount {
    root: String,
    point: String,
    kind: String,
    options: String,
}

fn mounts(files: &Files) -> Vec<Mount> {
    let text = files.text("proc/self/mountinfo").unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let before: Vec<&str> = before.split(' ').collect();
            let after: Vec<&str> = after.split(' ').collect();
            Some(Mount {
                root: (*before.get(3)?).to_owned(),
                point: (*before.get(4)?).to_owned(),
                kind: (*after.first()?).to_owned(),
                options: (*after.get(2)?).to_owned(),
            })
        })
        .filter(|mount| mount.kind.starts_with("cgroup"))
        .collect()
}

/// The directory of group `own` when the hierarchy's `root` is mounted at `point`.
fn join(point: &str, root: &str, own: &str) -> PathBuf {
    let below = own.strip_prefix(root.trim_end_matches('/')).unwrap_or("");
    let point = PathBuf::from(point.trim_start_matches('/'));
    match below.trim_matches('/') {
        "" => point,
        below => point.join(below),
    }
}

/// Prefix of the name of a group that is made as a trial.
const TRIAL: &str = "numapilot-doctor-";

/// Makes a group below this process's own and removes it. Also removes a group left by a doctor
/// that was killed in between.
fn make_group(files: &Files, directory: &PathBuf) -> io::Result<()> {
    let directory = files.path(directory);
    for group in fs::read_dir(&directory).into_iter().flatten().flatten() {
        if group.file_name().as_encoded_bytes().starts_with(TRIAL.as_bytes()) {
            // The group of another doctor, or one in use, stays.
            let _ = fs::remove_dir(group.path());
        }
    }
    let path = directory.join(format!("{TRIAL}{}", std::process::id()));
    fs::create_dir(&path)?;
    match fs::remove_dir(&path) {
        // Another doctor has removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn cgroup(files: &Files, trial: impl FnOnce(&Files, &PathBuf) -> io::Result<()>) -> Check {
    const NAME: &str = "cgroup";
    let (version, group) = match (unified(files), cpuset_v1(files)) {
        (Some(group), None) => ("v2", group),
        (Some(group), Some(_)) if group.cpuset => ("v2", group),
        (_, Some(group)) => ("v1", group),
        (None, None) => {
            return Check::missing(
                NAME,
                "none",
                "no cgroup hierarchy is mounted",
                "sudo mount -t cgroup2 none /sys/fs/cgroup; in a container: its runtime mounts it",
            );
        }
    };
    let place = format!("/{}", group.directory.display());
    if !group.cpuset {
        return Check::limited(
            NAME,
            format!("{version} at {place}, without cpuset"),
            "the cpuset controller is not enabled for this group: cores are held by affinity only",
            "echo +cpuset | sudo tee cgroup.subtree_control in the parent group; systemd: \
             Delegate=cpuset",
        );
    }
    match trial(files, &group.directory) {
        Ok(()) => Check::works(NAME, format!("{version} with cpuset; a group was made in {place}")),
        Err(error) => Check::limited(
            NAME,
            format!("{version} with cpuset, not writable"),
            format!("making a group in {place} failed: {error}; cores are held by affinity only"),
            "run as root, or under: systemd-run --user --scope -p Delegate=yes",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::super::check::tests::recorded;
    use super::*;

    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
    const V1: &str = "31 30 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                      32 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn a_delegated_group_works() {
        let (_dir, files) = recorded(&[
            ("proc/self/cgroup", "0::/user.slice/a.scope\n"),
            ("proc/self/mountinfo", V2),
            ("sys/fs/cgroup/user.slice/a.scope/cgroup.controllers", "cpuset cpu memory\n"),
        ]);
        let check = cgroup(&files, make_group);
        assert_eq!(check.state, State::Works, "{check:?}");
        assert_eq!(
            check.found,
            "v2 with cpuset; a group was made in /sys/fs/cgroup/user.slice/a.scope"
        );
        assert_eq!(files.names("sys/fs/cgroup/user.slice/a.scope"), ["cgroup.controllers"]);
    }

    #[test]
    fn without_the_controller_or_the_right_it_is_limited() {
        let with = |controllers: &str, trial: io::Result<()>| {
            let (_dir, files) = recorded(&[
                ("proc/self/cgroup", "0::/\n"),
                ("proc/self/mountinfo", V2),
                ("sys/fs/cgroup/cgroup.controllers", controllers),
            ]);
            cgroup(&files, |_, _| trial)
        };
        assert!(with("cpu\n", Ok(())).found.contains("without cpuset"));
        let check = with("cpuset\n", Err(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(check.state, State::Limited);
        assert!(check.cause.unwrap().contains("permission denied"));
    }

    #[test]
    fn a_hybrid_machine_has_its_cpuset_in_version_1() {
        let (_dir, files) = recorded(&[
            ("proc/self/cgroup", "3:cpuset:/a\n2:cpu,cpuacct:/\n0::/\n"),
            ("proc/self/mountinfo", V1),
            ("sys/fs/cgroup/unified/cgroup.controllers", ""),
        ]);
        assert_eq!(cpuset_v1(&files).unwrap().directory, PathBuf::from("sys/fs/cgroup/cpuset/a"));
        assert!(cgroup(&files, |_, _| Ok(())).found.starts_with("v1 with cpuset"));
    }

    #[test]
    fn a_container_sees_its_group_as_the_root_of_the_mount() {
        assert_eq!(
            join("/sys/fs/cgroup", "/docker/x", "/docker/x/y"),
            PathBuf::from("sys/fs/cgroup/y")
        );
        assert_eq!(join("/sys/fs/cgroup", "/", "/"), PathBuf::from("sys/fs/cgroup"));
    }

    #[test]
    fn no_cgroups_are_missing() {
        let (_dir, files) = recorded(&[]);
        assert_eq!(cgroup(&files, make_group).state, State::Missing);
    }
}
