#!/usr/bin/env python3
"""Measures how often the plan that `numapilot advise` names first is near the best of all.

    cargo build --release --workspace && target/release/numapilot lab setup
    python3 scripts/measure-advise.py --numapilot target/release/numapilot --results advise.jsonl
    python3 scripts/measure-advise.py --results advise.jsonl --table

Each case boots one emulated machine. There `advise` observes one run of the program, and then every
plan of the space runs once, the default first. Each run takes 0.1 s of simulated time or more; the
kernels repeat their work for 0.1 s. What counts is the time that the program prints, which leaves
loading out, or the inverse of the rate that it prints, or else the wall time of the whole program.
All are simulated, so a run is not disturbed by the host. A case is a hit when the named plan takes
at most 5 % longer than the best. Cases that are in the file of results are not run again; with
--again, `advise` observes them again, and the named plan runs again, but not the other plans.
"""

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile

MACHINES = ["opteron-8385", "machine-a"]

# Programs by name.
KERNEL = ["--threads", "8", "--size", "8M", "--for", "0.1"]
CASES = {
    "k1": ["numapilot", "bench", "kernel", "k1", *KERNEL],
    "k2": ["numapilot", "bench", "kernel", "k2", *KERNEL],
    "k8": ["numapilot", "bench", "kernel", "k8", *KERNEL],
    "w1": ["numapilot", "bench", "w1", "--records", "6M", "--groups", "20k", "--threads", "8"],
    "w2": ["numapilot", "bench", "w2", "--records", "6M", "--groups", "20k", "--threads", "8"],
    "w3": ["numapilot", "bench", "w3", "--small", "400k", "--large", "8M", "--threads", "8"],
    "redis": ["sh", "studies/programs/server.sh", "8000"],
    "sqlite": ["sh", "-c", "sed s/400000/40000/ studies/programs/table.sql | sqlite3 :memory:"],
}
# What the programs need in the guest, besides themselves.
INCLUDES = {
    "redis": ["redis-server", "redis-cli", "redis-benchmark", "mktemp", "sleep", "rm",
              "studies/programs/server.sh"],
    "sqlite": ["sqlite3", "studies/programs/table.sql"],
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
field() { grep -o "\\"$1\\": *[0-9.e-]*" /tmp/printed | head -n 1 | tr -d ' ' | cut -d : -f 2; }
numapilot advise --allow-machine-wide --json -o /tmp/advice "$@" > /dev/null 2>&1
echo "ADVICE $(tr -d '\\n' < /tmp/advice)"
run() {
    numapilot stat -x , -e duration_time -o /tmp/time -- \
        numapilot run $options -- "$@" $json > /tmp/printed 2> /dev/null
    status=$?
    case "$*" in *--for*) rate=$(field items_per_second);; *) rate=;; esac
    seconds=$(field seconds)
    echo "PLAN $status ${rate:-0} ${seconds:-$(cut -d , -f 1 /tmp/time)} $options"
}
"""

NAMED = """
options="$(tr -d '\\n' < /tmp/advice | sed 's/.*"options": \\[//; s/\\].*//; s/[",]//g')"
run "$@"
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


def cost(line):
    """The time of a run, or the inverse of its rate; None if it failed."""
    status, rate, seconds = line.split(" ")[1:4]
    if status != "0":
        return None
    return 1e9 / float(rate) if float(rate) > 0 else float(seconds)


def measure(numapilot, machine, name, all_plans):
    """The advice for a case, the time of each of these plans, and that of the named one."""
    command = [numapilot if word == "numapilot" else word for word in CASES[name]]
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as script:
        json_option = "--json" if "bench" in command else ""
        script.write(f"json={json_option}\n{SCRIPT}")
        for options in all_plans:
            script.write(f'options="{" ".join(options)}"; run "$@"\n')
        script.write(NAMED)
        script.flush()
        includes = [*libraries(numapilot), *TOOLS, *INCLUDES.get(name, [])]
        lab = [numapilot, "lab", "run", "--machine", machine, "-o", os.devnull]
        lab += [f"--include={path}" for path in includes]
        done = subprocess.run([*lab, "--", "sh", script.name, *command], capture_output=True,
                              text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    lines = done.stdout.splitlines()
    advice = json.loads(next(line[7:] for line in lines if line.startswith("ADVICE ")))
    runs = [(" ".join(line.split(" ")[4:]).strip(), cost(line)) for line in lines
            if line.startswith("PLAN ")]
    named, named_seconds = runs.pop()
    return {"machine": machine, "case": name, "advice": advice,
            "seconds": {plan: seconds for plan, seconds in runs if seconds is not None},
            "named": " ".join(named.split()), "named_seconds": named_seconds}


def canonical(plan):
    """A plan as a set of options, in whatever order and with whatever spelling of the defaults."""
    return frozenset(plan.split()) - {"--allocator=glibc", "--threads=none", "--thp=inherit"}


def table(results):
    """The results as a table of the manual."""
    print("| machine | program | default | best | plan named first | best plan | hit |")
    print("|---|---|---|---|---|---|---|")
    hits = 0
    for result in results:
        best = min(result["seconds"], key=result["seconds"].get)
        least = result["seconds"][best]
        same = [seconds for plan, seconds in result["seconds"].items()
                if canonical(plan) == canonical(result["named"])]
        named = min([result["named_seconds"] or float("inf"), *same])
        hit = named <= NEAR * least
        hits += hit
        print(f"| {result['machine']} | {result['case']} | {result['seconds'][''] / least:.2f} | "
              f"1.00 | `{result['named'] or 'default'}` ({named / least:.2f}) | "
              f"`{best or 'default'}` | {'yes' if hit else 'no'} |")
    if results:
        print(f"\n{hits} of {len(results)} hits ({100 * hits / len(results):.0f} %)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--numapilot", default="target/release/numapilot")
    parser.add_argument("--machines", default=",".join(MACHINES))
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--results", required=True, help="file of results, one case a line")
    parser.add_argument("--again", help="observe the cases of --results again, into this file")
    parser.add_argument("--table", action="store_true", help="print the table, and run nothing")
    given = parser.parse_args()
    results = []
    if os.path.exists(given.results):
        with open(given.results) as file:
            results = [json.loads(line) for line in file]
    known = {(result["machine"], result["case"]): result for result in results}
    if given.again:
        results = []
    pairs = itertools.product(given.cases.split(","), given.machines.split(","))
    for name, machine in [] if given.table else pairs:
        before = known.get((machine, name))
        if (before is None) == bool(given.again):
            continue
        try:
            result = measure(given.numapilot, machine, name, [] if given.again else plans())
        except (RuntimeError, StopIteration, ValueError) as error:
            print(f"{machine} {name}: {error}", file=sys.stderr)
            continue
        if given.again:
            result["seconds"] = before["seconds"]
        results.append(result)
        with open(given.again or given.results, "a") as file:
            file.write(json.dumps(result) + "\n")
        print(f"{machine} {name}: {len(result['seconds'])} plans", file=sys.stderr)
    table(results)


if __name__ == "__main__":
    main()
