//! AutoNUMA on and off, on a machine of eight nodes: by default pages follow their thread, but an
//! explicit policy or the setting keeps them in place.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

use crate::guests::{NUMAPILOT, boots, compiled, err};

/// The location of a run's pages at its end, and the number of prepared hint faults.
#[derive(Debug, Default)]
struct Run {
    pages: BTreeMap<u32, u32>,
    hinted: Option<i64>,
}

#[test]
fn pages_follow_their_thread_unless_they_must_stay() {
    if !boots() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled("migrate.c", directory.path()) else { return };
    // CPU 2 is the first of node 1. The first run ends when its pages have moved. The kernel starts
    // moving a second after a program's start, so the other runs take longer.
    let program = program.display();
    let script = format!(
        "echo == default; {program} 2 100\n\
         echo == bound; numapilot run -m 0 -- {program} 2 5\n\
         echo == off; numapilot run --numa-balancing off -- {program} 2 5\n\
         echo == again; cat /proc/sys/kernel/numa_balancing\n\
         echo == switched; echo 0 > /proc/sys/kernel/numa_balancing\n\
         numapilot balance --json -o /tmp/lines --interval 300ms -- {program} 2 3 2> /tmp/said\n\
         echo said $(grep -c 'balance sets kernel.numa_balancing to 1 for the whole' /tmp/said)\n\
         grep -q '\"machine_wide\":{{\"kernel.numa_balancing\":\"1\"}}' /tmp/lines && echo told 1\n\
         echo left $(cat /proc/sys/kernel/numa_balancing)\n"
    );
    let file = directory.path().join("script");
    fs::write(&file, script).unwrap();
    let output = Command::new(NUMAPILOT)
        .args(["lab", "run", "-m", "machine-a", "--no-model", "--time-scale", "100", "--include"])
        .arg(program.to_string())
        .args(["--", "sh", file.to_str().unwrap()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut runs: BTreeMap<&str, Run> = BTreeMap::new();
    let mut name = "";
    let mut words_of_balance: BTreeMap<&str, &str> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let run = runs.entry(name).or_default();
        match words[..] {
            ["==", next] => name = next,
            ["node", node, "pages", pages] => {
                run.pages.insert(node.parse().unwrap(), pages.parse().unwrap());
            }
            [word @ ("said" | "told" | "left"), count] => {
                words_of_balance.insert(word, count);
            }
            ["hinted", count] => run.hinted = count.parse().ok(),
            // The machine's setting: on, and on again after a run that turns it off.
            ["1"] => run.hinted = Some(1),
            _ => panic!("{line}: {text}"),
        }
    }
    let pages = |name: &str, node| runs[name].pages.get(&node).copied().unwrap_or(0);
    assert!(pages("default", 1) > 900, "{text}");
    assert!(runs["default"].hinted > Some(0), "{text}");
    for stays in ["bound", "off"] {
        assert_eq!(pages(stays, 0), 1024, "{text}");
        assert_eq!(runs[stays].hinted, Some(0), "{text}");
    }
    assert_eq!(runs["again"].hinted, Some(1), "{text}");
    // Without a PMU, `balance` turns it on, reports that once on stderr and in every line, and
    // restores it.
    assert!(runs["switched"].hinted > Some(0), "{text}");
    let expected = [("left", "0"), ("said", "1"), ("told", "1")];
    assert_eq!(words_of_balance.into_iter().collect::<Vec<_>>(), expected, "{text}");
}
