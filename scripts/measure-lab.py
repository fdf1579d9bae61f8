#!/usr/bin/env python3
"""Measures what the lab costs: CPU time of the host, with the model and without, or of two builds.

    cargo build --release --workspace && target/release/numapilot lab setup
    python3 scripts/measure-lab.py --numapilot target/release/numapilot
    python3 scripts/measure-lab.py --against /path/to/another/build/numapilot

Each round runs each program on the same emulated machine with the model and without (`--no-model`),
or with the other build, one right after the other; the order alternates from round to round. CPU
time is that of numapilot and QEMU, with the boot, which the program `true` shows alone. Ratios are
computed within a round, with the boot's CPU time of that round taken off both sides; the table
shows medians. The last column says whether all runs with the model counted the same.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

# Arguments of `numapilot bench`. k3 follows chains of dependent loads, k4 adds to random words, and
# k1 reads an array in order. The kernels place their threads themselves, on the nodes in turn;
# `numapilot run` places those of w1.
PROGRAMS = {
    "true": None,
    "chase-1": ["kernel", "k3", "--threads", "1", "--size", "64M"],
    "chase-8": ["kernel", "k3", "--threads", "8", "--size", "64M"],
    "random-8": ["kernel", "k4", "--threads", "8", "--size", "64M"],
    "stream-8": ["kernel", "k1", "--threads", "8", "--size", "64M"],
    "w1-1": ["w1", "--threads", "1", "--records", "500k", "--groups", "50k"],
    "w1-8": ["w1", "--threads", "8", "--records", "500k", "--groups", "50k"],
    "w1-16": ["w1", "--threads", "16", "--records", "500k", "--groups", "50k"],
}


def run(numapilot, machine, bench, model):
    """Seconds and CPU seconds of a lab, and the counts of the model."""
    command = ["true"]
    if bench:
        place = ["numapilot", "run", "--threads", "sparse", "--"] if bench[0] == "w1" else []
        command = [*place, "numapilot", "bench", *bench]
    with tempfile.TemporaryDirectory() as directory:
        output = os.path.join(directory, "counts.json")
        counting = ["--json", "-o", output] if model else ["--no-model"]
        lab = [numapilot, "lab", "run", "--machine", machine, *counting, "--numa-balancing", "off"]
        begun = time.monotonic()
        process = subprocess.Popen([*lab, "--", *command], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"{' '.join(command)} ended with status {process.returncode}")
        counts = None
        if model:
            with open(output) as file:
                counts = json.load(file)["regions"][0]
    return seconds, usage.ru_utime + usage.ru_stime, counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--numapilot", default="target/release/numapilot", metavar="PROGRAM")
    parser.add_argument("--against", metavar="PROGRAM", help="numapilot of another build")
    parser.add_argument("--machine", default="machine-a")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", default=",".join(PROGRAMS), metavar="LIST")
    options = parser.parse_args()

    other = options.against or "without model"
    results = {name: ([], []) for name in dict.fromkeys(["true", *options.programs.split(",")])}
    for turn in range(options.rounds):
        for name, runs in results.items():
            for which in (0, 1) if turn % 2 == 0 else (1, 0):
                program = options.against if which and options.against else options.numapilot
                model = which == 0 or options.against is not None
                runs[which].append(run(program, options.machine, PROGRAMS[name], model))
                print(f"{name}: {other if which else options.numapilot}: {runs[which][-1][0]:.2f} s, "
                      f"{runs[which][-1][1]:.2f} s of CPU, load {os.getloadavg()[0]:.1f}", file=sys.stderr)

    print(f"| program | time, s | {other} | CPU time, s | {other} | ratio without the boot "
          "| DRAM accesses per s of CPU | counts |")
    print("|---" * 8 + "|")
    for name, (ours, others) in results.items():
        cells = [name]
        for what in (0, 1):
            cells += [f"{statistics.median(run[what] for run in runs):.2f}" for runs in (ours, others)]
        boots = [[boot[1] for boot in runs] for runs in results["true"]]
        if name == "true":
            ratios = [a / b for a, b in zip(*boots)]
        else:
            ratios = [(a[1] - boots[0][i]) / (b[1] - boots[1][i]) for i, (a, b) in enumerate(zip(ours, others))]
        cells.append(f"{statistics.median(ratios):.2f}" + (" (the boot)" if name == "true" else ""))
        if name == "true":
            cells.append("")
        else:
            dram = [c["local_accesses"] + c["remote_accesses"] for _, _, c in ours]
            rates = [d / (a[1] - boot) for d, a, boot in zip(dram, ours, boots[0])]
            cells.append(f"{statistics.median(rates) / 1e6:.2f} M")
        cells.append("the same" if all(run[2] == ours[0][2] for run in ours) else "differ")
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    sys.exit(main())
