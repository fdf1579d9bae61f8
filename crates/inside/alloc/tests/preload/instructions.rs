//! The cost of the fast paths, in instructions of the optimised library. The count is exact,
//! whatever else the machine does, because the program is single-stepped. The table is for this
//! compiler on x86-64.

use std::fmt::Write;

use crate::disassembly::{disassembled, name_of_table};
use crate::harness::{Subject, installed};

/// Runs the counting program; `None` when it may not count.
fn output(arguments: &[&str]) -> Option<String> {
    let subject = Subject::optimised();
    let program = subject.compile("instructions.c");
    let mut command = subject.command(&program);
    // glibc copies long objects by one instruction, of which every round is a step.
    command.env("GLIBC_TUNABLES", "glibc.cpu.x86_rep_movsb_threshold=100000000");
    let output = command.args(arguments).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    if output.status.code() == Some(77) {
        println!("skipped: {}", stdout.trim());
        return None;
    }
    assert!(output.status.success(), "{arguments:?}: {:?} {stdout}", output.status);
    Some(stdout)
}

fn count(arguments: &[&str]) -> Option<f64> {
    output(arguments).map(|stdout| stdout.trim().parse().unwrap())
}

const SIZES: [&str; 12] =
    ["16", "32", "64", "128", "256", "512", "1024", "2048", "4096", "8192", "16384", "32768"];

#[test]
fn a_round_of_malloc_and_free_costs_at_most_46() {
    for size in SIZES {
        let Some(cost) = count(&["count", "malloc-free", size]) else { return };
        assert!(cost <= 46.0, "{size} bytes: {cost}");
    }
}

#[test]
fn a_round_of_calloc_and_free_costs_at_most_74() {
    let Some(cost) = count(&["count", "calloc-free", "64"]) else { return };
    assert!(cost <= 74.0, "{cost}");
}

/// The cost of a call in a writer that appends 16 bytes at a time up to 64 KiB, including copies.
#[test]
fn a_call_of_growing_realloc_costs_at_most_64() {
    let Some(cost) = count(&["count", "realloc-growing", "65536"]) else { return };
    assert!(cost <= 64.0, "{cost}");
}

/// The published code walks a list of all large blocks.
#[test]
fn free_of_a_large_block_does_not_depend_on_the_live_ones() {
    let (Some(few), Some(many)) = (count(&["free-large", "64"]), count(&["free-large", "16000"]))
    else {
        return;
    };
    assert!(many < 2.0 * few + 200.0, "{few} among 64, {many} among 16,000");
}

/// The cost of one function for one size.
#[derive(Default)]
struct Cost {
    instructions: u32,
    branches: u32,
    loads: u32,
    stores: u32,
}

impl Cost {
    /// Counts one line of a disassembly in AT&T syntax, where the destination is the last operand.
    fn add(&mut self, line: &str) {
        let (name, operands) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let operands = operands.split('#').next().unwrap_or_default().trim();
        self.instructions += 1;
        if name.starts_with('j') || name.starts_with("call") || name.starts_with("ret") {
            self.branches += 1;
            self.loads += u32::from(name.starts_with("ret") || operands.starts_with('*'));
        } else if name.starts_with("push") {
            self.stores += 1;
        } else if name.starts_with("pop") {
            self.loads += 1;
        } else if operands.contains('(') || operands.contains("%fs:") {
            let to_memory = operands.ends_with(')');
            let only_reads = name.starts_with("cmp") || name.starts_with("test");
            let moves = name.starts_with("mov");
            if !["lea", "nop", "prefetch"].iter().any(|none| name.starts_with(none)) {
                self.stores += u32::from(to_memory && !only_reads);
                self.loads += u32::from(!(to_memory && moves));
            }
        }
    }
}

#[test]
fn the_fast_paths_are_those_of_the_table() {
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: the table of fast paths is for x86-64 only");
        return;
    }
    if !installed("objdump") {
        return;
    }
    let Some(name) = name_of_table("instructions", "fast_paths") else { return };
    let code = disassembled(&Subject::optimised().preload.unwrap());
    let mut table = String::from("function size instructions branches loads stores\n");
    for size in SIZES {
        let Some(trace) = output(&["trace", "malloc-free", size]) else { return };
        // When the trace leaves the library for good, the next function begins.
        let mut calls: Vec<Cost> = Vec::new();
        let mut inside = false;
        for offset in trace.lines().map(|line| u64::from_str_radix(line, 16).unwrap()) {
            let line = code.get(&offset);
            if line.is_some() && !inside {
                calls.push(Cost::default());
            }
            inside = line.is_some();
            if let (Some(line), Some(call)) = (line, calls.last_mut()) {
                call.add(line);
            }
        }
        assert_eq!(calls.len(), 2, "{size}: neither malloc nor free calls anything");
        for (name, Cost { instructions, branches, loads, stores }) in
            ["malloc", "free"].iter().zip(calls)
        {
            writeln!(table, "{name} {size} {instructions} {branches} {loads} {stores}").unwrap();
        }
    }
    insta::assert_snapshot!(name, table);
}
