//! Records the files of a machine.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::Recording;
use crate::read::is_field;

/// The files that [`crate::read`] uses. A `*` stands for any text in one name. A `/` at the end
/// records the name alone.
const PATHS: &[&str] = &[
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/self/status",
    "proc/sys/kernel/hostname",
    "sys/devices/system/cpu/cpu*/cache/index*/coherency_line_size",
    "sys/devices/system/cpu/cpu*/cache/index*/level",
    "sys/devices/system/cpu/cpu*/cache/index*/shared_cpu_list",
    "sys/devices/system/cpu/cpu*/cache/index*/size",
    "sys/devices/system/cpu/cpu*/cache/index*/type",
    "sys/devices/system/cpu/cpu*/cache/index*/ways_of_associativity",
    "sys/devices/system/cpu/cpu*/node*/",
    "sys/devices/system/cpu/cpu*/topology/core_id",
    "sys/devices/system/cpu/cpu*/topology/core_siblings_list",
    "sys/devices/system/cpu/cpu*/topology/physical_package_id",
    "sys/devices/system/cpu/cpu*/topology/thread_siblings_list",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/present",
    "sys/devices/system/cpu/smt/active",
    "sys/devices/system/node/node*/access*/initiators/*_bandwidth",
    "sys/devices/system/node/node*/access*/initiators/*_latency",
    "sys/devices/system/node/node*/access*/initiators/node*/",
    "sys/devices/system/node/node*/cpulist",
    "sys/devices/system/node/node*/distance",
    "sys/devices/system/node/node*/hugepages/hugepages-*/free_hugepages",
    "sys/devices/system/node/node*/hugepages/hugepages-*/nr_hugepages",
    "sys/devices/system/node/node*/meminfo",
    "sys/devices/system/node/online",
    "sys/devices/virtual/memory_tiering/memory_tier*/nodelist",
    "sys/kernel/mm/hugepages/hugepages-*/free_hugepages",
    "sys/kernel/mm/hugepages/hugepages-*/nr_hugepages",
];

/// Most bytes kept of one file.
const MAX_BYTES: u64 = 64 << 10;

impl Recording {
    /// Records the machine whose `sys` and `proc` are below `root`. Missing files are left out.
    ///
    /// # Errors
    /// When an existing file or directory cannot be read.
    pub fn record(root: &Path) -> io::Result<Self> {
        let mut entries = BTreeMap::new();
        for path in PATHS {
            collect(root, "", path, &mut entries)?;
        }
        Ok(Self { comment: String::new(), entries })
    }
}

/// Adds the files that match `rest` below `root`/`done`.
fn collect(
    root: &Path,
    done: &str,
    rest: &str,
    entries: &mut BTreeMap<String, String>,
) -> io::Result<()> {
    let (name, rest) = rest.split_once('/').map_or((rest, None), |(name, rest)| (name, Some(rest)));
    for name in names(&root.join(done), name)? {
        let path = format!("{done}{name}");
        match rest {
            Some("") => drop(entries.insert(path + "/", String::new())),
            Some(rest) => collect(root, &(path + "/"), rest, entries)?,
            None => {
                if let Some(text) = text(&root.join(&path))? {
                    entries.insert(path.clone(), needed(&path, &text));
                }
            }
        }
    }
    Ok(())
}

/// Names in a directory that match a pattern; the pattern itself when it has no `*`.
fn names(directory: &Path, pattern: &str) -> io::Result<Vec<String>> {
    let Some((head, tail)) = pattern.split_once('*') else { return Ok(vec![pattern.to_owned()]) };
    let listing = match fs::read_dir(directory) {
        Ok(listing) => listing,
        Err(e) if absent(&e) => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut names = Vec::new();
    for entry in listing {
        let name = entry?.file_name();
        let fits = |name: &&str| {
            name.strip_prefix(head).is_some_and(|n| n.ends_with(tail)) && numbered(name, head)
        };
        names.extend(name.to_str().filter(fits).map(str::to_owned));
    }
    Ok(names)
}

/// `cpu*` means `cpu0`, not `cpufreq`.
fn numbered(name: &str, head: &str) -> bool {
    head.is_empty() || name[head.len()..].starts_with(|c: char| c.is_ascii_digit())
}

fn text(path: &Path) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let result = File::open(path).and_then(|f| f.take(MAX_BYTES).read_to_end(&mut bytes));
    match result {
        Ok(_) => Ok(Some(String::from_utf8_lossy(&bytes).replace('\0', ""))),
        Err(e) if absent(&e) => Ok(None),
        Err(e) => Err(io::Error::new(e.kind(), format!("{}: {e}", path.display()))),
    }
}

fn absent(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Leaves out what [`crate::read`] does not use: lines that change continually, and in
/// `/proc/cpuinfo` all CPUs but the first.
fn needed(path: &str, text: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    let keep = |line: &&str| match file {
        "meminfo" => line.contains("MemTotal:") || line.contains("MemFree:"),
        "status" => line.contains("_allowed_list:"),
        "cpuinfo" => line.split(':').next().is_some_and(|name| is_field(name.trim())),
        _ => true,
    };
    let one = if file == "cpuinfo" { text.split("\n\n").next().unwrap_or_default() } else { text };
    one.lines().filter(keep).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}
