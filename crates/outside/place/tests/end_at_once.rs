//! A process that ends at once takes the programs it has started along. The only test
//! here: it ends all that this process runs.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::ffi::OsString;
use std::io::Read;

use numapilot_place::{Options, Plan, kill_groups, prepare};
use numapilot_topology::Machine;

#[test]
fn groups_are_killed_whole_and_others_are_not() {
    let machine = Machine::uniform(1, 1);
    let start = |script: &str, new_group| {
        let (reader, writer) = std::io::pipe().unwrap();
        let words = ["sh", "-c", script].map(OsString::from);
        let options = Options { new_group, ..Options::default() };
        let prepared = prepare(&Plan::default(), &machine, &words, &options).unwrap();
        let running = prepared
            .spawn(|command| {
                command.stdout(writer);
            })
            .unwrap();
        (running, reader)
    };
    let (alone, mut output) = start("sleep 600 & echo; wait", true);
    // Its descendant runs.
    output.read_exact(&mut [0]).unwrap();
    let (among_us, _) = start("exec sleep 600", false);
    kill_groups();
    // The pipe ends only when every process that holds it is gone.
    assert_eq!(output.read(&mut [0]).unwrap(), 0);
    assert!(alone.ended_within(None).unwrap());
    assert!(!among_us.ended_within(Some(std::time::Duration::ZERO)).unwrap());
}
