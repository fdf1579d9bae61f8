//! A mount and IPC namespace for one test: plain files replace the kernel's settings, and `/run`
//! (which includes the directory for temporary files) and `/dev/shm` are empty.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use numapilot_sys::process::PidFd;

use crate::guests::NUMAPILOT;

/// The settings with their initial values, which no verb sets.
const SWITCHES: [(&str, &str); 2] = [
    ("/sys/kernel/mm/transparent_hugepage/enabled", "madvise"),
    ("/proc/sys/kernel/numa_balancing", "3"),
];
/// Directories that stay empty or hold files that are kept for the user.
const KEPT: [&str; 6] =
    ["/run/tmp", "/run/numapilot", "/run/numapilot-cores", "/run/cache", "/run/state", "/run/best"];

/// A namespace, which exists as long as a process in it.
pub struct Namespace {
    holder: Child,
    directory: tempfile::TempDir,
}

impl Namespace {
    /// Returns `None` if namespaces are not available.
    pub fn new() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mut script = String::new();
        for (at, (switch, before)) in SWITCHES.into_iter().enumerate() {
            let file = directory.path().join(at.to_string());
            fs::write(&file, before).unwrap();
            // A kernel without this setting has nothing to restore.
            let file = file.display();
            script += &format!("{{ [ ! -e {switch} ] || mount --bind {file} {switch}; }} && ");
        }
        // mount(8) writes to `/run`, so this comes last.
        script += "mount -t tmpfs -o mode=1777 none /dev/shm && mount -n -t tmpfs none /run && \
                   mkdir -m 1777 /run/tmp && echo ready && exec sleep 3600";
        let mut command = Command::new("unshare");
        command.args(["-m", "-i", "sh", "-c", &script]).stdin(Stdio::null()).stderr(Stdio::null());
        let mut holder = match command.stdout(Stdio::piped()).spawn() {
            Ok(holder) => holder,
            Err(error) => {
                println!("skipped: unshare: {error}");
                return None;
            }
        };
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line != "ready\n" {
            holder.wait().unwrap();
            println!("skipped: no mount namespaces here");
            return None;
        }
        Some(Self { holder, directory })
    }

    /// A path in the namespace as seen from outside.
    pub fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.holder.id()))
    }

    /// A file that is visible in the namespace too, under the same path.
    pub fn shared(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A command that runs a program in the namespace.
    fn program(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        for kind in ["mnt", "ipc"] {
            let option = if kind == "mnt" { "mount" } else { kind };
            command.arg(format!("--{option}=/proc/{}/ns/{kind}", self.holder.id()));
        }
        command.arg("--").arg(program).current_dir("/").env("TMPDIR", "/run/tmp");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// A command that runs `numapilot` in the namespace.
    pub fn numapilot(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(NUMAPILOT);
        // Where `scripts/setup test` installs Python modules.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        command.args(arguments).env("PYTHONPATH", target.join("python"));
        command
    }

    /// The processes in the namespace except its holder. They include the guard, and servers whose
    /// children overwrite their environment.
    fn left(&self) -> Vec<i32> {
        let namespace = |process: i32| {
            let name = if process == 0 { "self".to_owned() } else { process.to_string() };
            fs::read_link(format!("/proc/{name}/ns/mnt")).ok()
        };
        let holder = self.holder.id().cast_signed();
        let this = namespace(holder).filter(|this| Some(this) != namespace(0).as_ref());
        let Some(this) = this else { return Vec::new() };
        let is_here = |process| namespace(process).is_some_and(|there| there == this);
        processes().filter(|&process| process != holder && is_here(process)).collect()
    }

    /// Kills the processes in the namespace for which `is_chosen`, given program and first
    /// argument, is true.
    pub fn kill(&self, is_chosen: impl Fn(&Path, &str) -> bool) {
        for process in self.left() {
            let file = fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
            let line = fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
            if is_chosen(&file, line.split('\0').next().unwrap_or_default()) {
                let _ = PidFd::open(process).map(|process| process.signal(libc::SIGKILL));
            }
        }
    }

    /// The files in the directories that should be empty, except those that are kept.
    pub fn files(&self) -> BTreeSet<PathBuf> {
        let mut files = BTreeSet::new();
        let mut directories = ["/run", "/dev/shm"].map(|path| self.path(path)).to_vec();
        let kept = KEPT.map(|path| self.path(path));
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() && !path.ends_with("cache") && !path.ends_with("state") {
                    directories.push(path.clone());
                }
                if !kept.contains(&path) {
                    files.insert(path);
                }
            }
        }
        files
    }

    /// The shared memory segments of System V, one per line below a heading.
    pub fn segments(&self) -> String {
        let output = self.program("cat").arg("/proc/sysvipc/shm").stdout(Stdio::piped()).output();
        String::from_utf8(output.unwrap().stdout).unwrap().lines().skip(1).collect()
    }

    /// Whether no process, no record and no changed setting is left.
    pub fn is_settled(&self) -> Result<(), String> {
        // Processes come first: once they have ended, nothing changes the rest.
        let left = self.left();
        let mut records = self.files();
        records.retain(|path| path.to_string_lossy().contains("/run/numapilot"));
        let here = SWITCHES.into_iter().filter(|(switch, _)| Path::new(switch).exists());
        let mut changed = Vec::new();
        for (switch, before) in here {
            let now = fs::read_to_string(self.path(switch)).unwrap();
            if left.is_empty() && now.is_empty() && !records.is_empty() {
                // The kernel replaces a setting as a whole. A plain file is truncated first, and
                // the kill came between truncation and write.
                fs::write(self.path(switch), before).unwrap();
                assert!(self.numapilot(&["restore"]).status().unwrap().success());
            }
            if now != before {
                changed.push((switch, now));
            }
        }
        let is_settled = left.is_empty() && records.is_empty() && changed.is_empty();
        if is_settled { Ok(()) } else { Err(format!("{left:?} {changed:?} {records:?}")) }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // This also runs when an assertion fails, so nothing is left.
        self.kill(|_, _| true);
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn processes() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
