#!/usr/bin/env python3
"""Measures the cost, the speed and the reproducibility of the lab's model.

    cargo build --release --workspace && target/release/numapilot lab setup
    python3 scripts/measure-lab.py --numapilot target/release/numapilot

Each round runs each program on the same emulated machine with the model and without
(`--no-model`), one right after the other; the order alternates from round to round. Time is host
time from the beginning of the program to its end, so the guest's boot does not count. CPU time is
QEMU's in the same period, which a busy host changes less. Ratios are computed within a round; the
table shows medians. Counters and simulated time of each run with the model are compared with those
of the previous one: the table shows the median and the largest difference.
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
    "chase-1": ["kernel", "k3", "--threads", "1", "--size", "64M"],
    "chase-8": ["kernel", "k3", "--threads", "8", "--size", "64M"],
    "random-8": ["kernel", "k4", "--threads", "8", "--size", "64M"],
    "stream-8": ["kernel", "k1", "--threads", "8", "--size", "64M"],
    "w1-1": ["w1", "--threads", "1", "--records", "500k", "--groups", "50k"],
    "w1-8": ["w1", "--threads", "8", "--records", "500k", "--groups", "50k"],
    "w1-16": ["w1", "--threads", "16", "--records", "500k", "--groups", "50k"],
}
# Counters to compare, each with the counter that its difference is relative to.
COUNTERS = {"instructions": "instructions", "reads": "reads", "writes": "writes",
            "first_level_misses": "first_level_misses", "last_level_misses": "last_level_misses",
            "local_accesses": "dram_accesses", "remote_accesses": "dram_accesses"}


def cpu_seconds(process):
    """CPU time of all threads of a process's children."""
    with open(f"/proc/{process}/task/{process}/children") as file:
        children = file.read().split()
    ticks = 0
    for child in children:
        with open(f"/proc/{child}/stat") as file:
            ticks += sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def run(options, bench, model):
    """Seconds and CPU seconds of the program, and the counts of the model."""
    place = "numapilot run --threads sparse -- " if bench[0] == "w1" else ""
    script = f"echo begin; {place}numapilot bench {' '.join(bench)} >/dev/null && echo end; read last"
    with tempfile.TemporaryDirectory() as directory:
        output = os.path.join(directory, "counts.json")
        counting = ["--json", "-o", output] if model else ["--no-model"]
        lab = [options.numapilot, "lab", "run", "--machine", options.machine, *counting]
        with subprocess.Popen([*lab, "--numa-balancing", "off", "--", "sh", "-c", script],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            times = []
            for expected in ["begin\n", "end\n"]:
                if process.stdout.readline() != expected:
                    sys.exit(f"{' '.join(bench)} failed in the guest")
                times.append((time.monotonic(), cpu_seconds(process.pid)))
            process.communicate("\n")
        counts = None
        if model:
            with open(output) as file:
                counts = json.load(file)["regions"][0]
            counts["dram_accesses"] = counts["local_accesses"] + counts["remote_accesses"]
    return times[1][0] - times[0][0], times[1][1] - times[0][1], counts


def apart(counts, fields):
    """The difference of each run from the previous one, in the field that differs most."""
    whole = {field: statistics.mean(c[share_of] for c in counts) or 1 for field, share_of in fields.items()}
    return [max((abs(a[field] - b[field]) / whole[field], field) for field in fields)
            for a, b in zip(counts, counts[1:])] or [(0.0, "one run")]


def differences(apart):
    """The median and the largest difference as a table cell."""
    (largest, field), median = max(apart), statistics.median(difference for difference, _ in apart)
    return f"{median:.2%}, at most {largest:.2%} ({field})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--numapilot", default="target/release/numapilot", metavar="PROGRAM")
    parser.add_argument("--machine", default="machine-a")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", default=",".join(PROGRAMS), metavar="LIST")
    options = parser.parse_args()

    results = {name: ([], []) for name in options.programs.split(",")}
    for turn in range(options.rounds):
        for name, runs in results.items():
            for model in (True, False) if turn % 2 == 0 else (False, True):
                seconds, cpu, counts = run(options, PROGRAMS[name], model)
                runs[0 if model else 1].append((seconds, cpu, counts))
                print(f"{name}: {'model' if model else 'plain'} {seconds:.2f} s, {cpu:.2f} s of CPU, "
                      f"load {os.getloadavg()[0]:.1f}", file=sys.stderr)

    print("| program | time, s | without model | ratio | CPU time, s | without | ratio "
          "| DRAM accesses per s of CPU | counters apart | simulated time apart |")
    print("|---" * 10 + "|")
    for name, (modelled, plain) in results.items():
        cells = [name]
        for what in (0, 1):
            cells += [f"{statistics.median(run[what] for run in runs):.2f}" for runs in (modelled, plain)]
            cells.append(f"{statistics.median(a[what] / b[what] for a, b in zip(modelled, plain)):.2f}")
        counts = [run[2] for run in modelled]
        rate = statistics.median(c["dram_accesses"] / cpu for _, cpu, c in modelled)
        cells += [f"{rate / 1e6:.2f} M", differences(apart(counts, COUNTERS)),
                  differences(apart(counts, {"seconds": "seconds"})).removesuffix(" (seconds)")]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    sys.exit(main())
