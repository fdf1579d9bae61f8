#!/usr/bin/env python3
"""Remote DRAM accesses, TLB misses and simulated time by allocator, on an emulated machine.

    cargo build --release --workspace && target/release/numapilot lab setup
    python3 scripts/compare-lab.py --numapilot target/release/numapilot

In one boot, every program runs under every allocator, and each run is a separate region. The cost
of the same program with almost no work, under the same allocator, is subtracted, because the start
of a process is not the allocator's cost. The lab's model makes the counts, so a busy host hardly
changes them. `--scale` multiplies the work of each program.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

# Operations per thread at scale 1 for the micro-benchmarks of `bench alloc`; records for w1.
BENCHES = {
    "threadtest": 30000,
    "larson": 30000,
    "cache-scratch": 5000,
    "cache-thrash": 5000,
    "producer-consumer": 20000,
    "w1": 100000,
}
COUNTS = ["remote_accesses", "local_accesses", "tlb_misses", "simulated_seconds"]


def command(bench, threads, amount):
    """The command for this much work."""
    if bench == "w1":
        return f"numapilot bench w1 -t {threads} --records {amount} --groups {max(amount // 10, 1)}"
    return f"numapilot bench alloc {bench} -t {threads} -n {amount}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--numapilot", default="target/release/numapilot", metavar="PROGRAM")
    parser.add_argument("--machine", default="xeon-8153")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--allocators", default="glibc,mimalloc,numapilot", metavar="LIST")
    parser.add_argument("--placement", default="none", choices=["none", "sparse", "dense"],
                        help="thread placement; none: the scheduler moves threads freely")
    parser.add_argument("--benches", default=",".join(BENCHES), metavar="LIST")
    options = parser.parse_args()
    allocators, benches = options.allocators.split(","), options.benches.split(",")

    script, libraries = "", []
    for allocator in allocators:
        plan = ["numapilot", "run", "--threads", options.placement, "--allocator", allocator]
        dry = subprocess.run([options.numapilot, *plan[1:], "--dry-run", "--", "true"],
                             capture_output=True, text=True, check=True)
        # The arguments do not name the library, so the lab needs it as an option.
        preloads = [word.split("=", 1)[1] for word in dry.stdout.split() if word.startswith("LD_PRELOAD=")]
        libraries += [library for preload in preloads for library in preload.split(":")]
        for bench in benches:
            for name, amount in [("nothing", options.threads), (bench, int(BENCHES[bench] * options.scale))]:
                region = f"{allocator}/{bench}/{name}"
                script += f"numapilot lab mark begin {region}\n"
                script += f"{' '.join(plan)} -- {command(bench, options.threads, amount)} >/dev/null || exit 1\n"
                script += f"numapilot lab mark end {region}\n"
    with tempfile.TemporaryDirectory() as directory:
        file, output = os.path.join(directory, "script"), os.path.join(directory, "counts.json")
        with open(file, "w") as target:
            target.write(script)
        lab = [options.numapilot, "lab", "run", "--machine", options.machine, "--json", "-o", output]
        for library in libraries:
            lab += ["--include", library]
        subprocess.run([*lab, "--", "sh", file], check=True, stdin=subprocess.DEVNULL)
        with open(output) as source:
            regions = {region["name"]: region for region in json.load(source)["regions"]}

    print("| program | " + " | ".join(f"{a}: remote, local, TLB misses, ms" for a in allocators) + " |")
    print("|---" * (len(allocators) + 1) + "|")
    for bench in benches:
        cells = []
        for allocator in allocators:
            work, nothing = regions[f"{allocator}/{bench}/{bench}"], regions[f"{allocator}/{bench}/nothing"]
            remote, local, tlb, seconds = [max((work[count] or 0) - (nothing[count] or 0), 0) for count in COUNTS]
            cells.append(f"{remote:,}, {local:,}, {tlb:,}, {1e3 * seconds:.2f}")
        print(f"| {bench} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    sys.exit(main())
