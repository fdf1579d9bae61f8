//! Processes created since one last looked.
//!
//! Source: proc_loadavg(5), whose last field is the number given to a thread or process
//! last. Numbers are given in ascending order until they wrap, so that only those in
//! between have to be looked up, instead of every process of the machine: looking for
//! children is what observing costs most.

use std::fs;
use std::io::Read;
use std::ops::RangeInclusive;

/// Beyond so many numbers listing `/proc` is cheaper than trying each.
const MOST: i32 = 4096;

/// A process and its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Born {
    pub pid: i32,
    pub parent: i32,
}

/// Up to which number everybody is known.
#[derive(Debug, Default)]
pub struct Newcomers {
    seen: Option<i32>,
}

impl Newcomers {
    /// Those created after process `pid`.
    pub fn after(pid: i32) -> Self {
        Self { seen: Some(pid) }
    }

    /// Processes created since the last call; all of them, the first time.
    pub fn find_newcomers(&mut self) -> Vec<Born> {
        let last = fs::read_to_string("/proc/loadavg").ok().and_then(|t| parse_last(&t));
        let mut stat = Vec::new();
        let mut born = |pid: i32| Some(Born { pid, parent: parent_of(pid, &mut stat)? });
        let found = match numbers(self.seen, last) {
            Some(range) => range.filter_map(&mut born).collect(),
            None => everybody().filter_map(&mut born).collect(),
        };
        self.seen = last;
        found
    }
}

/// The numbers to try; `None` when there are too many or they have wrapped.
fn numbers(seen: Option<i32>, last: Option<i32>) -> Option<RangeInclusive<i32>> {
    let (seen, last) = (seen?, last?);
    (seen <= last && last - seen <= MOST).then(|| seen + 1..=last)
}

fn everybody() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok())
}

fn parse_last(loadavg: &str) -> Option<i32> {
    loadavg.split_whitespace().nth(4)?.parse().ok()
}

/// The parent of a process; `None` for a number that is a thread's or nobody's.
fn parent_of(pid: i32, buffer: &mut Vec<u8>) -> Option<i32> {
    buffer.clear();
    fs::File::open(format!("/proc/{pid}/stat")).ok()?.read_to_end(buffer).ok()?;
    parse_parent(buffer)
}

/// Field 4, counted from the last `)`: the name before it may contain any bytes. A thread's
/// number has a file, too, which `/proc` does not list; field 38, the signal to the parent
/// at the end, is -1 in it (clone(2): `CLONE_THREAD`).
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
            "the first look is at everybody"
        );
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let born = Born { pid: child.id().cast_signed(), parent: me };
        assert!(newcomers.find_newcomers().contains(&born));
        assert!(!newcomers.find_newcomers().contains(&born));
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    /// Else every thread would count as a process with all memory of its own.
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
    fn numbers_that_wrapped_or_are_many_mean_everybody() {
        assert_eq!(numbers(Some(10), Some(12)), Some(11..=12));
        assert_eq!(numbers(Some(10), Some(10)).map(Iterator::count), Some(0));
        assert_eq!(numbers(Some(30_000), Some(300)), None);
        assert_eq!(numbers(Some(1), Some(100_000)), None);
        assert_eq!(numbers(None, Some(5)), None);
        assert_eq!(numbers(Some(5), None), None);
    }

    #[test]
    fn the_fields_of_the_files() {
        assert_eq!(parse_last("6.03 6.79 5.60 7/139 32664\n"), Some(32664));
        assert_eq!(parse_last("6.03 6.79"), None);
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
            if let Some(last) = parse_last(&text) {
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
