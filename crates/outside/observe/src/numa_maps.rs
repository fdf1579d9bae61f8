//! `/proc/PID/numa_maps`: the nodes of the pages of a process.
//!
//! Source: proc_pid_numa_maps(5), `show_numa_map` in fs/proc/task_mmu.c. One line per
//! mapping; `N<node>=<pages>` counts in units of `kernelpagesize_kB`: 4 for ordinary and
//! for transparent huge pages, the huge page size for hugetlb.
//!
//! ```text
//! 7f2a40000000 interleave:0-1 anon=512 dirty=512 N0=256 N1=256 kernelpagesize_kB=4
//! ```
//!
//! The file of a large process has many megabytes, so it is read as a stream, line by line.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead};

use numapilot_topology::NodeId;

/// Bytes on each node.
pub type NodeBytes = BTreeMap<NodeId, u64>;

/// Size of a page if the line does not state it (before Linux 3.16).
const DEFAULT_PAGE_KIB: u64 = 4;

/// Maximum length of a line. A path has at most 4096 bytes, or four times as many if every byte is
/// escaped, followed by the policy and counters of 1024 nodes.
const MAX_LINE: u64 = 1 << 16;

/// Adds up the bytes on each node over all mappings.
///
/// A line that cannot be parsed adds nothing, because newer kernels add fields.
///
/// # Errors
/// Those of the reader; `ESRCH` if the process ends while it is read.
pub fn sum(reader: impl BufRead) -> io::Result<NodeBytes> {
    let mut total = NodeBytes::new();
    for_each_line(reader, |line| {
        for (node, bytes) in mapping(line) {
            let sum = total.entry(node).or_default();
            *sum = sum.saturating_add(bytes);
        }
    })?;
    Ok(total)
}

/// Calls `each` with every line. A line that is too long comes in several pieces.
fn for_each_line(mut reader: impl BufRead, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if io::Read::take(&mut reader, MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        each(&line);
    }
}

/// Bytes on each node of one mapping.
fn mapping(line: &[u8]) -> Vec<(NodeId, u64)> {
    let mut pages = Vec::new();
    let mut page_kib = DEFAULT_PAGE_KIB;
    // Address and policy come first. Spaces in a file name after `file=` are escaped, so spaces
    // separate the fields.
    for field in line.split(|b| b.is_ascii_whitespace()).skip(2) {
        let Ok(field) = std::str::from_utf8(field) else { continue };
        if let Some(size) = field.strip_prefix("kernelpagesize_kB=") {
            page_kib = size.parse().unwrap_or(DEFAULT_PAGE_KIB);
        } else if let Some((node, count)) =
            field.strip_prefix('N').and_then(|rest| rest.split_once('='))
            && let (Ok(node), Ok(count)) = (node.parse().map(NodeId), count.parse::<u64>())
        {
            pages.push((node, count));
        }
    }
    let bytes = |count: u64| count.saturating_mul(page_kib).saturating_mul(1024);
    pages.into_iter().map(|(node, count)| (node, bytes(count))).collect()
}

/// Start addresses of the mappings of hugetlbfs: `MAP_HUGETLB`, `SHM_HUGETLB` and files.
///
/// # Errors
/// As [`sum`].
pub fn hugetlb_starts(reader: impl BufRead) -> io::Result<BTreeSet<u64>> {
    let mut starts = BTreeSet::new();
    for_each_line(reader, |line| {
        let mut fields = line.split(|b| b.is_ascii_whitespace());
        let start = fields.next().and_then(|field| std::str::from_utf8(field).ok());
        let start = start.and_then(|text| u64::from_str_radix(text, 16).ok());
        // After the policy. Spaces in a file name are escaped.
        if fields.skip(1).any(|field| field == b"huge") {
            starts.extend(start);
        }
    })?;
    Ok(starts)
}

/// Whether AutoNUMA, if it is on, moves the pages of a process to their users. That depends on the
/// policy of the first mapping, which belongs to the program's file and has the policy of the
/// process. AutoNUMA skips pages with a policy other than the default, unless it has the balancing
/// flag and more than one node. `None` if there is no line.
///
/// Source: `mpol_misplaced` and `mpol_to_str` in mm/mempolicy.c.
#[must_use]
pub fn moved_by_auto_numa(text: &[u8]) -> Option<bool> {
    let policy = text.split(u8::is_ascii_whitespace).nth(1)?;
    let policy = std::str::from_utf8(policy).ok()?;
    let (mode, nodes) = policy.split_once(':').unwrap_or((policy, ""));
    let several = nodes.contains([',', '-']);
    match mode.split_once('=') {
        // Kernels without a name for the flag write nothing after the equals sign.
        Some((_, flags)) => Some(several && (flags.is_empty() || flags.contains("balancing"))),
        None => Some(mode == "default"),
    }
}

#[cfg(test)]
mod tests {
    use numapilot_test_kit::damaged_bytes;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mappings_of_hugetlbfs_are_reported_by_a_word_of_their_own() {
        let text = "7f67c0600000 default file=/anon_hugepage\\040(deleted) huge anon=2 N0=2 \
                    kernelpagesize_kB=2048\n\
                    7f67d0000000 default file=/tmp/huge anon=1 N0=1 kernelpagesize_kB=4\n\
                    huge bind:0 heap\n7f67e0000000 bind:1 huge\n";
        let starts = hugetlb_starts(text.as_bytes()).unwrap();
        assert_eq!(starts, [0x7f67_c060_0000, 0x7f67_e000_0000].into());
    }

    fn nodes(text: &str) -> Vec<(u32, u64)> {
        sum(text.as_bytes()).unwrap().into_iter().map(|(n, b)| (n.0, b)).collect()
    }

    #[test]
    fn a_recorded_single_node_process() {
        let text = include_str!("../tests/numa_maps/one-node-sort");
        assert_eq!(nodes(text), [(0, 2_797_568)]);
    }

    #[test]
    fn a_synthetic_eight_node_process_with_every_page_size() {
        let text = include_str!("../tests/numa_maps/synthetic-eight-nodes");
        assert_eq!(
            nodes(text),
            [
                (0, (256 + 5 + 1) * 4096 + (2 << 21)),
                (1, 256 * 4096 + (2 << 21)),
                (2, 512 * 4096),
                (7, (1 << 30) + 3 * 4096),
            ]
        );
    }

    #[test]
    fn policies_that_auto_numa_moves_by() {
        let moved =
            |policy: &str| moved_by_auto_numa(format!("55d0 {policy} file=/bin/x N0=1").as_bytes());
        for (policy, expected) in [
            ("default", true),
            ("bind=balancing:0-1", true),
            ("bind=:0,2", true),
            ("bind=static|balancing:0-3", true),
            ("bind=balancing:0", false),
            ("bind:0-1", false),
            ("bind=static:0-1", false),
            ("local", false),
            ("interleave:0-3", false),
        ] {
            assert_eq!(moved(policy), Some(expected), "{policy}");
        }
        assert_eq!(moved_by_auto_numa(b""), None);
    }

    #[test]
    fn names_cannot_pose_as_counters() {
        let text = "7f0000000000 default file=/tmp/N1=5\\040N2=7 mapped=1 N0=1 kernelpagesize_kB=4";
        assert_eq!(nodes(text), [(0, 4096)]);
        assert_eq!(nodes("7f00 N9=9 stack anon=1 N0=1 kernelpagesize_kB=4"), [(0, 4096)]);
    }

    #[test]
    fn truncated_lines_and_absurd_numbers_are_survived() {
        assert_eq!(nodes(""), []);
        assert_eq!(nodes("7f00"), []);
        assert_eq!(nodes("7f00 default N0="), []);
        assert_eq!(
            nodes("7f00 default N0=18446744073709551615 kernelpagesize_kB=4"),
            [(0, u64::MAX)]
        );
        let long = format!("7f00 default file={} N0=1\n7f01 default N1=1\n", "x".repeat(1 << 20));
        assert_eq!(nodes(&long).last(), Some(&(1, 4096)));
    }

    proptest! {
        #[test]
        fn what_is_written_is_summed(
            maps in proptest::collection::vec(
                (proptest::collection::vec((0u32..16, 0u64..1 << 30), 0..5), prop_oneof![Just(4u64), Just(64), Just(2048), Just(1 << 20)]),
                0..30,
            )
        ) {
            let mut text = String::new();
            let mut expected = NodeBytes::new();
            for (i, (counts, kib)) in maps.iter().enumerate() {
                text += &format!("{:x} bind:0-15 anon=1 dirty=1 active=0", i << 12);
                for (node, count) in counts {
                    text += &format!(" N{node}={count}");
                    *expected.entry(NodeId(*node)).or_default() += count * kib * 1024;
                }
                text += &format!(" kernelpagesize_kB={kib}\n");
            }
            prop_assert_eq!(sum(text.as_bytes()).unwrap(), expected);
        }

        #[test]
        fn a_damaged_file_is_read(bytes in damaged_bytes(
            b"55d0 default file=/usr/bin/cat mapped=6 N0=6 kernelpagesize_kB=4\n\
              7f67c0600000 bind:0-1 file=/anon_hugepage\\040(deleted) huge anon=2 N0=1 N1=1 \
              kernelpagesize_kB=2048\n7ffc default stack anon=3 dirty=3 active=0 N1=3\n",
        )) {
            let nodes = sum(bytes.as_slice()).unwrap();
            prop_assert!(nodes.values().all(|bytes| bytes % 1024 == 0 || *bytes == u64::MAX), "{nodes:?}");
            let _ = hugetlb_starts(bytes.as_slice()).unwrap();
        }
    }
}
