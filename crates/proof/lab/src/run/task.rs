//! Builds the task of process 1 from a request.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use numapilot_lab_init::{DIRECTORY, Setting, Task, User};
use numapilot_place::elf::{Kind, inspect};
use numapilot_place::{find_program, own_program};
use numapilot_sys::splitmix::{GAMMA, mix};

use super::{OWN_PROGRAMS, Request, Streams, Tuning};
use crate::LabError;

/// Where the guest looks for programs if the host has no PATH.
const NO_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The variable that names the directory of numapilot's libraries.
const LIBRARIES: &str = "NUMAPILOT_LIB_DIR";

/// The kernel's default delay and periods of automatic NUMA balancing, in milliseconds
/// (Documentation/admin-guide/sysctl/kernel.rst before Linux 5.13; kernel/sched/fair.c).
const BALANCING_MS: [(&str, u64); 3] =
    [("scan_delay_ms", 1000), ("scan_period_min_ms", 1000), ("scan_period_max_ms", 60_000)];

/// The kernel's default size of a scan of automatic NUMA balancing, in MiB (kernel/sched/fair.c).
const SCAN_MIB: u32 = 256;

/// Period of the guest kernel's tick (CONFIG_HZ=250), within which the seed determines the start of
/// the program.
const TICK_NS: u64 = 4_000_000;

/// Builds the task.
pub fn from_request(request: &Request) -> Result<Task, LabError> {
    let program = program(request.command.first().map_or(OsStr::new(""), OsString::as_os_str))?;
    let nodes = request.shape.nodes.len();
    if let Some((node, _)) = request.tuning.weights.iter().find(|(node, _)| *node >= nodes) {
        let machine = request.shape.name.clone();
        return Err(LabError::NoNode { machine, node: *node, last: nodes.saturating_sub(1) });
    }
    let account = request.user.and_then(|user| {
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        Account::of(user, &passwd)
    });
    Ok(Task {
        hostname: request.shape.name.clone().into(),
        program,
        arguments: request.command.clone(),
        environment: environment(env::vars_os().collect(), account.as_ref()),
        directory: env::current_dir().map_err(LabError::host("find the working directory"))?,
        user: request.user,
        settings: settings(&request.tuning, request.shape.cache_scale),
        delay_ns: mix(request.seed.wrapping_add(GAMMA)) % TICK_NS,
        terminal: match request.streams {
            Streams::Pipes => None,
            Streams::Terminal(size) => Some(size),
        },
    })
}

/// The absolute path of the program's file, if the guest can run it.
fn program(name: &OsStr) -> Result<PathBuf, LabError> {
    let shown = || name.to_string_lossy().into_owned();
    let path = env::var_os("PATH").unwrap_or_else(|| NO_PATH.into());
    // numapilot's programs are in the guest anyway.
    let own = || own_program(OWN_PROGRAMS.into_iter().find(|own| name == *own)?);
    let Some(found) = find_program(name, &path).or_else(own) else {
        let given = Path::new(name);
        if given.components().count() > 1 && given.exists() {
            let why = if given.is_dir() { "it is a directory" } else { "permission denied" };
            return Err(LabError::NotExecutable { program: shown(), why: why.to_owned() });
        }
        let is_path = given.components().count() > 1;
        let searched = if is_path { "the file system" } else { "PATH" }.to_owned();
        return Err(LabError::NoProgram { program: shown(), searched });
    };
    let found = std::path::absolute(&found).map_err(LabError::at("find", &found))?;
    let why = |why: String| LabError::NotExecutable { program: shown(), why };
    let binary = inspect(&found).map_err(|error| why(error.to_string()))?;
    match binary.kind {
        Kind::Dynamic { native: false, .. } => {
            Err(why("it is for another processor than x86-64".to_owned()))
        }
        Kind::Other => Err(why("it is neither a program nor a script with a #! line".to_owned())),
        _ => Ok(found),
    }
}

/// Name and home directory of a user.
#[derive(Debug, PartialEq, Eq)]
struct Account {
    name: String,
    home: String,
}

impl Account {
    fn of(user: User, passwd: &str) -> Option<Self> {
        passwd.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let (name, uid, home) = (fields.first()?, fields.get(2)?, fields.get(5)?);
            (uid.parse() == Ok(user.uid))
                .then(|| Self { name: (*name).to_owned(), home: (*home).to_owned() })
        })
    }
}

/// The host's environment, with numapilot on the PATH, and the variables that login(1) sets for
/// another user.
fn environment(
    mut all: Vec<(OsString, OsString)>,
    account: Option<&Account>,
) -> Vec<(OsString, OsString)> {
    if let Some(Account { name, home }) = account {
        let own = [("HOME", home), ("USER", name), ("LOGNAME", name)];
        all.retain(|(name, _)| own.iter().all(|(own, _)| name != own));
        all.extend(own.map(|(name, value)| (name.into(), value.into())));
    }
    match all.iter_mut().find(|(name, _)| name == "PATH") {
        Some((_, path)) => {
            path.push(":");
            path.push(DIRECTORY);
        }
        None => all.push(("PATH".into(), format!("{NO_PATH}:{DIRECTORY}").into())),
    }
    all.retain(|(name, _)| name != LIBRARIES);
    all.push((LIBRARIES.into(), DIRECTORY.into()));
    all
}

fn settings(tuning: &Tuning, cache_scale: u32) -> Vec<Setting> {
    let setting = |path: String, value: String| Setting { path: path.into(), value };
    let thp = tuning.thp.iter().map(|value| {
        setting("/sys/kernel/mm/transparent_hugepage/enabled".to_owned(), value.clone())
    });
    let balancing = tuning
        .numa_balancing
        .iter()
        .map(|value| setting("/proc/sys/kernel/numa_balancing".to_owned(), value.to_string()));
    let weights = tuning.weights.iter().map(|(node, weight)| {
        let path = format!("/sys/kernel/mm/mempolicy/weighted_interleave/node{node}");
        setting(path, weight.to_string())
    });
    let scans = tuning.autonuma_scale.iter().flat_map(|scale| {
        let scan = |name: &str, value: u64| {
            setting(format!("/sys/kernel/debug/sched/numa_balancing/{name}"), value.to_string())
        };
        let mut all = BALANCING_MS.map(|(name, ms)| scan(name, (ms / scale).max(1))).to_vec();
        all.push(scan("scan_size_mb", u64::from(SCAN_MIB / cache_scale.max(1)).max(1)));
        all
    });
    thp.chain(scans).chain(balancing).chain(weights).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_cannot_run_there_are_refused_here() {
        let error = |name: &str| program(OsStr::new(name)).unwrap_err();
        assert_eq!(error("no-such-program-here").exit_status(), 127);
        assert_eq!(error("/no/such/program").exit_status(), 127);
        assert_eq!(error("/etc").exit_status(), 126);
        assert_eq!(error("/etc/passwd").exit_status(), 126);
        assert_eq!(program(OsStr::new("sh")).unwrap().file_name().unwrap(), "sh");
    }

    #[test]
    fn numapilot_is_found_in_the_guest() {
        let pair = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        let found =
            environment(vec![pair("PATH", "/bin"), pair(LIBRARIES, "/host"), pair("A", "b")], None);
        assert!(found.contains(&pair("PATH", "/bin:/.numapilot")), "{found:?}");
        assert!(found.contains(&pair("A", "b")) && found.contains(&pair(LIBRARIES, DIRECTORY)));
        assert_eq!(found.len(), 3);
        assert!(environment(Vec::new(), None)[0].1.to_string_lossy().ends_with(":/.numapilot"));
    }

    #[test]
    fn another_user_has_a_name_and_a_home() {
        let passwd = "root:x:0:0::/root:/bin/sh\nbroken\npostgres:x:105:110::/var/db:/bin/sh\n";
        let account = Account::of(User { uid: 105, gid: 1 }, passwd).unwrap();
        assert_eq!(Account::of(User { uid: 106, gid: 1 }, passwd), None);
        let found = environment(vec![("HOME".into(), "/root".into())], Some(&account));
        let text: Vec<String> = found[..3]
            .iter()
            .map(|(name, value)| format!("{}={}", name.to_string_lossy(), value.to_string_lossy()))
            .collect();
        assert_eq!(text, ["HOME=/var/db", "USER=postgres", "LOGNAME=postgres"]);
    }

    #[test]
    fn tuning_becomes_files() {
        let tuning = Tuning {
            thp: Some("never".to_owned()),
            numa_balancing: Some(0),
            autonuma_scale: Some(100),
            weights: vec![(1, 3)],
        };
        let lines: Vec<String> = settings(&tuning, 16)
            .iter()
            .map(|s| format!("{} {}", s.path.display(), s.value))
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        /sys/kernel/mm/transparent_hugepage/enabled never
        /sys/kernel/debug/sched/numa_balancing/scan_delay_ms 10
        /sys/kernel/debug/sched/numa_balancing/scan_period_min_ms 10
        /sys/kernel/debug/sched/numa_balancing/scan_period_max_ms 600
        /sys/kernel/debug/sched/numa_balancing/scan_size_mb 16
        /proc/sys/kernel/numa_balancing 0
        /sys/kernel/mm/mempolicy/weighted_interleave/node1 3
        ");
    }
}
