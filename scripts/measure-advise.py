#!/usr/bin/env python3
"""Measures how often the plan that `numapilot advise` names first is near the best of all.

    cargo build --release --workspace && target/release/numapilot lab setup
    python3 scripts/measure-advise.py --numapilot target/release/numapilot --results advise.jsonl
    python3 scripts/measure-advise.py --results advise.jsonl --table

Each case boots one emulated machine. There `advise` observes one run of the program, and then every
plan of the space runs once, the default first. Time is what the program prints as its seconds, which
leaves loading out, or else the wall time of the whole program. Either is simulated, so a run is not
disturbed by the host. A case is a hit when the named plan takes at most 5 % longer than the best.
Cases that are in the file of results are not run again.
"""

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile

MACHINES = ["machine-b", "threadripper-1950x", "xeon-snc"]

# Programs by name.
W = ["--records", "200k", "--groups", "20k", "--threads", "8"]
JOIN = ["--threads", "8"]
CASES = {
    "w1": ["numapilot", "bench", "w1", *W],
    "w2": ["numapilot", "bench", "w2", *W],
    "w3": ["numapilot", "bench", "w3", "--rows", "100k", *JOIN],
    "w4": ["numapilot", "bench", "w4", "--rows", "50k", *JOIN],
    "k1": ["numapilot", "bench", "kernel", "k1", "--threads", "8", "--size", "8M"],
    "k3": ["numapilot", "bench", "kernel", "k3", "--threads", "1", "--size", "8M"],
    "k4": ["numapilot", "bench", "kernel", "k4", "--threads", "8", "--size", "8M"],
    "larson": ["numapilot", "bench", "alloc", "larson", "--threads", "8"],
    "sqlite": ["sqlite3", ":memory:", ".read studies/programs/table.sql"],
}

# The levels of the space. AutoNUMA is left as it is: a program that uses less than a second of CPU
# time ends before its first scan.
ALLOCATORS = ["glibc", "numapilot", "tbbmalloc"]
THREADS = ["none", "sparse", "dense"]
MEMORY = [[], ["--interleave=all"]]
THP = ["inherit", "never"]

NEAR = 1.05

# What the script in the guest uses.
TOOLS = ["cut", "grep", "head", "sed", "tr"]

SCRIPT = """
numapilot advise --allow-machine-wide --json -o /tmp/advice "$@" > /dev/null 2>&1
echo "ADVICE $(tr -d '\\n' < /tmp/advice)"
run() {
    numapilot stat -x , -e duration_time -o /tmp/time -- \
        numapilot run $options -- "$@" $json > /tmp/printed 2> /dev/null
    status=$?
    seconds=$(grep -o '"seconds": *[0-9.e-]*' /tmp/printed | head -n 1 | tr -d ' ' | cut -d : -f 2)
    echo "PLAN $status ${seconds:-$(cut -d , -f 1 /tmp/time)} $options"
}
"""


def plans():
    """The options of all plans, the default first."""
    for allocator, threads, memory, thp in itertools.product(ALLOCATORS, THREADS, MEMORY, THP):
        options = list(memory)
        options += [f"--allocator={allocator}"] if allocator != "glibc" else []
        options += [f"--threads={threads}"] if threads != "none" else []
        options += [f"--thp={thp}"] if thp != "inherit" else []
        yield options


def libraries(numapilot):
    """The libraries of the allocators, which the guest needs."""
    doctor = subprocess.run([numapilot, "doctor", "--json"], capture_output=True, text=True)
    found = re.findall(r"/[^\s,()\"]+\.so[.0-9]*", doctor.stdout)
    beside = os.path.join(os.path.dirname(os.path.abspath(numapilot)), "libnumapilot_alloc.so")
    return sorted({path for path in [*found, beside] if os.path.exists(path)})


def measure(numapilot, machine, name):
    """The advice for a case, and the seconds of each plan."""
    command = [numapilot if word == "numapilot" else word for word in CASES[name]]
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as script:
        json_option = "--json" if "bench" in command else ""
        script.write(f"json={json_option}\n{SCRIPT}")
        for options in plans():
            script.write(f'options="{" ".join(options)}"; run "$@"\n')
        script.write('options="$(tr -d \'\\n\' < /tmp/advice | sed \'s/.*"options": \\[//; s/\\].*//; '
                     's/[",]//g\')"; run "$@"\n')
        script.flush()
        include = [f"--include={path}" for path in [*libraries(numapilot), *TOOLS]]
        if name == "sqlite":
            include.append("--include=studies/programs/table.sql")
        lab = [numapilot, "lab", "run", "--machine", machine, "-o", os.devnull, *include]
        done = subprocess.run([*lab, "--", "sh", script.name, *command], capture_output=True,
                              text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    lines = done.stdout.splitlines()
    advice = json.loads(next(line[7:] for line in lines if line.startswith("ADVICE ")))
    runs = [line.split(" ", 3)[1:] for line in lines if line.startswith("PLAN ")]
    seconds = {" ".join(rest[2:]).strip(): float(rest[1]) for rest in runs[:-1] if rest[0] == "0"}
    last = runs[-1]
    return {"machine": machine, "case": name, "advice": advice, "seconds": seconds,
            "named": " ".join(" ".join(last[2:]).split()), "named_seconds": float(last[1])}


def table(results):
    """The results as a table of the manual."""
    print("| machine | program | default | best | plan named first | best plan | hit |")
    print("|---|---|---|---|---|---|---|")
    hits = 0
    for result in results:
        best = min(result["seconds"], key=result["seconds"].get)
        least = result["seconds"][best]
        named = min(result["named_seconds"], result["seconds"].get(result["named"], float("inf")))
        hit = named <= NEAR * least
        hits += hit
        ratio = named / least
        print(f"| {result['machine']} | {result['case']} | {result['seconds'][''] / least:.2f} | "
              f"{1000 * least:.1f} ms | `{result['named'] or 'default'}` ({ratio:.2f}) | "
              f"`{best or 'default'}` | {'yes' if hit else 'no'} |")
    if results:
        print(f"\n{hits} of {len(results)} hits ({100 * hits / len(results):.0f} %)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--numapilot", default="target/release/numapilot")
    parser.add_argument("--machines", default=",".join(MACHINES))
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--results", required=True, help="file of results, one case a line")
    parser.add_argument("--table", action="store_true", help="print the table, and run nothing")
    given = parser.parse_args()
    results = []
    if os.path.exists(given.results):
        with open(given.results) as file:
            results = [json.loads(line) for line in file]
    known = {(result["machine"], result["case"]) for result in results}
    for name in [] if given.table else given.cases.split(","):
        for machine in given.machines.split(","):
            if (machine, name) in known:
                continue
            try:
                result = measure(given.numapilot, machine, name)
            except (RuntimeError, StopIteration, ValueError) as error:
                print(f"{machine} {name}: {error}", file=sys.stderr)
                continue
            results.append(result)
            with open(given.results, "a") as file:
                file.write(json.dumps(result) + "\n")
            print(f"{machine} {name}: {len(result['seconds'])} plans", file=sys.stderr)
    table(results)


if __name__ == "__main__":
    main()
