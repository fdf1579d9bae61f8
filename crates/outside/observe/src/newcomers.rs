//! Processes that were created since the last look.
//!
//! Source: proc_loadavg(5). The last field is the id of the newest process or thread. Ids ascend
//! until they wrap, so only the ids in between have to be looked up and not every process of the
//! machine. Looking for children is the most expensive part of observing.

use std::fs;
use std::io::{self, Read};
use std::ops::RangeInclusive;

/// For more ids than this, listing `/proc` is cheaper than looking up each.
const MOST: i32 = 4096;

/// A process and its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Born {
    pub pid: i32,
    pub parent: i32,
}

/// Finds new processes.
#[derive(Debug, Default)]
pub struct Newcomers {
    /// The newest id at the last look.
    seen: Option<i32>,
    /// Older ids to look up again.
    again: Vec<i32>,
}

impl Newcomers {
    /// Finds processes that were created after process `pid`.
    pub fn after(pid: i32) -> Self {
        Self { seen: Some(pid), again: Vec::new() }
    }

    /// Whether a process or thread was created since the last look, as far as the kernel tells.
    pub fn has_new_tasks(&self) -> bool {
        let newest = newest_id();
        newest.is_none() || newest != self.seen
    }

    /// The processes that were created since the last call. The first call returns all processes.
    pub fn find_newcomers(&mut self) -> Vec<Born> {
        let newest = newest_id();
        let mut stat = Vec::new();
        let mut found = Vec::new();
        for pid in std::mem::take(&mut self.again) {
            found.extend(born(pid, &mut stat).ok().flatten());
        }
        match ids(self.seen, newest) {
            Some(range) => {
                for pid in range {
                    match born(pid, &mut stat) {
                        Ok(born) => found.extend(born),
                        // It has ended, or the kernel has assigned the id but not yet created it.
                        Err(_) => self.again.push(pid),
                    }
                }
            }
            None => found.extend(everybody().filter_map(|pid| born(pid, &mut stat).ok().flatten())),
        }
        self.seen = newest;
        found
    }

    /// Returns this process again from the next call, if it still exists.
    pub fn look_again(&mut self, pid: i32) {
        self.again.push(pid);
    }
}

/// The ids to look up, or `None` if there are too many or they have wrapped.
fn ids(seen: Option<i32>, newest: Option<i32>) -> Option<RangeInclusive<i32>> {
    let (seen, newest) = (seen?, newest?);
    (seen <= newest && newest - seen <= MOST).then(|| seen + 1..=newest)
}

fn everybody() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok())
}

fn newest_id() -> Option<i32> {
    parse_newest(&fs::read_to_string("/proc/loadavg").ok()?)
}

fn parse_newest(loadavg: &str) -> Option<i32> {
    loadavg.split_whitespace().nth(4)?.parse().ok()
}

/// The process with this id, or `None` if it is the id of a thread.
fn born(pid: i32, buffer: &mut Vec<u8>) -> io::Result<Option<Born>> {
    buffer.clear();
    fs::File::open(format!("/proc/{pid}/stat"))?.read_to_end(buffer)?;
    Ok(parse_parent(buffer).map(|parent| Born { pid, parent }))
}

/// Parses field 4, counted from the last `)`, because the name before it may contain any bytes. A
/// thread's id has a file too, although `/proc` does not list it. There, field 38, the signal to the
/// parent at the end, is -1 (clone(2): `CLONE_THREAD`).
fn parse_parent(stat: &[u8]) -> Option<i32> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?.split_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let exit_signal: i32 = fields.nth(33)?.parse().ok()?;
    (exit_signal != -1).then_some(parent)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use numapilot_test_kit::damaged;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_child_is_seen_once() {
        let me = std::process::id().cast_signed();
        let mut newcomers = Newcomers::default();
        assert!(
            newcomers.find_newcomers().iter().any(|b| b.pid == me),
            "the first look finds all processes"
        );
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let born = Born { pid: child.id().cast_signed(), parent: me };
        assert!(newcomers.find_newcomers().contains(&born));
        assert!(!newcomers.find_newcomers().contains(&born));
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn an_id_without_a_process_is_looked_up_once_more() {
        let mut newcomers = Newcomers::default();
        newcomers.find_newcomers();
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let pid = child.id().cast_signed();
        newcomers.find_newcomers();
        assert!(newcomers.again.contains(&pid));
        newcomers.find_newcomers();
        assert!(!newcomers.again.contains(&pid));
        let me = std::process::id().cast_signed();
        newcomers.look_again(me);
        let count = |found: Vec<Born>| found.iter().filter(|born| born.pid == me).count();
        assert_eq!(count(newcomers.find_newcomers()), 1);
        assert_eq!(count(newcomers.find_newcomers()), 0);
    }

    /// Otherwise every thread would count as a process with its own memory.
    #[test]
    fn a_thread_is_no_process() {
        let mut newcomers = Newcomers::default();
        newcomers.find_newcomers();
        let (give, take) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                give.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                let _ = ended.recv();
            });
            let thread = take.recv().unwrap();
            assert!(fs::exists(format!("/proc/{thread}/stat")).unwrap());
            assert!(newcomers.find_newcomers().iter().all(|born| born.pid != thread));
            drop(end);
        });
    }

    #[test]
    fn ids_that_wrapped_or_are_many_mean_everybody() {
        assert_eq!(ids(Some(10), Some(12)), Some(11..=12));
        assert_eq!(ids(Some(10), Some(10)).map(Iterator::count), Some(0));
        assert_eq!(ids(Some(30_000), Some(300)), None);
        assert_eq!(ids(Some(1), Some(100_000)), None);
        assert_eq!(ids(None, Some(5)), None);
        assert_eq!(ids(Some(5), None), None);
    }

    #[test]
    fn the_fields_of_the_files() {
        assert_eq!(parse_newest("6.03 6.79 5.60 7/139 32664\n"), Some(32664));
        assert_eq!(parse_newest("6.03 6.79"), None);
        let stat = |exit_signal| format!("12 (a) R 9 (b) S 7 {}{exit_signal} 0 0", "0 ".repeat(33));
        assert_eq!(parse_parent(stat("17").as_bytes()), Some(7));
        assert_eq!(parse_parent(stat("-1").as_bytes()), None);
        // The kernel cuts a name within a character.
        let cut = [b"12 (\xd1".as_slice(), &stat("17").as_bytes()[4..]].concat();
        assert_eq!(parse_parent(&cut), Some(7));
        assert_eq!(parse_parent(b"12 (a) S 7"), None);
        assert_eq!(parse_parent(b"12 (a"), None);
    }

    proptest! {
        #[test]
        fn a_damaged_load_is_read_or_refused(text in damaged("6.03 6.79 5.60 7/139 32664\n")) {
            if let Some(last) = parse_newest(&text) {
                prop_assert!(text.contains(&last.to_string()));
            }
        }

        #[test]
        fn damaged_figures_are_read_or_refused(text in damaged(
            "12 (a) R 9 (b) S 7 12 12 34816 12 4194304 95 0 0 0 0 0 0 0 20 0 1 0 4 3 2 1 0 0 0 0 0 0 0 \
             0 0 0 0 0 17 0 0 0 0 0 0\n",
        )) {
            if let Some(parent) = parse_parent(text.as_bytes()) {
                prop_assert!(text.contains(&parent.to_string()));
            }
        }
    }
}
