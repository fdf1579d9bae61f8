#!/usr/bin/env python3
"""Measures how well `numapilot cores` follows a real load, and its cost.

    cargo build --release -p numapilot
    python3 scripts/measure-cores.py follow --numapilot target/release/numapilot --svg cores
    python3 scripts/measure-cores.py cost --numapilot target/release/numapilot

`follow` starts processes that compute or wait. The load determines how many compute: little, a
step up, back to little, a burst of a second, and little again. The result is the time from a change
of the load to the first tick at which the program has the right number of cores. In the step that
is the number of computing processes. After the burst it is the number that `little` keeps busy for
45 %, which default mode has to reach and the published rule does not. `constant` is the number of
changes of cores during the last two thirds of the step. It also runs on an emulated machine with
more CPUs:

    numapilot lab run -m opteron-8385 --no-model --include python3 --include /usr/lib/python3.11 \\
        --include $PWD/scripts/measure-cores.py -- python3 $PWD/scripts/measure-cores.py follow

`cost` compares the work of one process per CPU with and without the daemon, in pairs of short parts
of one run. The order alternates from pair to pair, and each part begins after a second for settling.
It also counts the target's CPU time (which other guests of the host change less than its work),
changes of cores, context switches and migrations. For an idle target, one with a few threads and one
with a thousand, it measures the target's context switches and the daemon's own CPU time.
"""

import argparse
import json
import math
import mmap
import os
import random
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

SETTLING_S = 1.0
MODES = ["paper", "default"]


def compute(active, work, index):
    """Computes while its index is below the active number; otherwise waits for a signal."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    while True:
        if struct.unpack_from("i", active)[0] > index:
            for _ in range(2000):
                pass
            done = struct.unpack_from("Q", work, 8 * index)[0]
            struct.pack_into("Q", work, 8 * index, done + 1)
        else:
            signal.sigwait([signal.SIGUSR1])


class Load:
    """Processes, some of which compute."""

    def __init__(self, most):
        self.active, self.work = mmap.mmap(-1, 4096), mmap.mmap(-1, 8 * max(most, 512))
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        self.children = []
        for index in range(most):
            child = os.fork()
            if child == 0:
                compute(self.active, self.work, index)
            self.children.append(child)

    def set(self, count):
        struct.pack_into("i", self.active, 0, count)
        for child in self.children[:count]:
            os.kill(child, signal.SIGUSR1)

    def done(self):
        return sum(struct.unpack_from("Q", self.work, 8 * i)[0] for i in range(len(self.children)))

    def end(self):
        for child in self.children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def play(arguments):
    """Plays the load, and logs its changes by the clock that all processes share."""
    little, much, most = arguments.little, arguments.much, arguments.most
    load = Load(most)
    phases = [("begin", little, 3), ("step", much, 4), ("down", little, 3), ("burst", most, 1),
              ("after", little, 4), ("end", 0, 0)]
    with open(arguments.log, "w") as log:
        for name, count, seconds in phases:
            load.set(count)
            print(name, time.monotonic(), file=log, flush=True)
            time.sleep(seconds)
    load.end()


def work(_):
    """Computes in one process per CPU; prints the work done for each line of input."""
    load = Load(len(os.sched_getaffinity(0)))
    load.set(len(load.children))
    for _ in sys.stdin:
        print(load.done(), flush=True)
    load.end()


def follow_once(arguments, mode):
    """The ticks of one run with their times, and the times at which the load changed."""
    log = f"/tmp/measure-cores-{os.getpid()}.log"
    command = [arguments.numapilot, "cores", "--mode", mode, "--json", "--startup", "0"]
    if arguments.svg:
        command += ["--svg", f"{arguments.svg}-{mode}.svg"]
    load = [sys.executable, os.path.abspath(__file__), "play", "--log", log,
            "--little", str(arguments.little), "--much", str(arguments.much),
            "--most", str(arguments.most)]
    ticks = []
    with subprocess.Popen([*command, "--", *load], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            ticks.append((time.monotonic(), json.loads(line)))
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)}: status {process.returncode}")
    with open(log) as lines:
        times = {name: float(at) for name, at in map(str.split, lines)}
    os.remove(log)
    return ticks, times


def until(ticks, begin, end, holds):
    """Ticks from `begin` to the first whose cores satisfy `holds`; None if there is none."""
    for count, (_, line) in enumerate((t for t in ticks if begin < t[0] <= end), 1):
        if holds(line["orders"]["cores"]):
            return count
    return None


def follow(arguments):
    cpus = len(os.sched_getaffinity(0))
    arguments.most = arguments.most or cpus
    arguments.much = arguments.much or max(2, cpus // 2)
    enough = math.ceil(arguments.little / 0.45)
    print(f"{cpus} CPUs; little {arguments.little}, much {arguments.much}, burst {arguments.most}; "
          f"load average {os.getloadavg()[0]:.1f}; medians of {arguments.rounds} rounds\n")
    print(f"{'mode':9}{'step served':>13}{'settled':>10}{'constant':>10}{'given back':>12}{'cores':>8}")
    show = lambda seen: "never" if None in seen else f"{statistics.median(seen):g} ticks"
    rows = {mode: [] for mode in MODES}
    for _ in range(arguments.rounds):
        for mode in MODES:
            ticks, at = follow_once(arguments, mode)
            step = [t for t in ticks if at["step"] < t[0] <= at["down"]]
            cores = [line["orders"]["cores"] for _, line in step]
            changes = [i for i in range(1, len(cores)) if cores[i] != cores[i - 1]]
            rows[mode].append((
                until(ticks, at["step"], at["down"], lambda n: n >= min(arguments.much, cpus)),
                changes[-1] + 1 if changes else 0,
                sum(i > len(cores) / 3 for i in changes),
                until(ticks, at["after"], at["end"], lambda n: n <= enough),
                statistics.mean(line["metrics"]["cores"] for _, line in ticks)))
    for mode in MODES:
        served, settled, constant, back, cores = zip(*rows[mode])
        print(f"{mode:9}{show(served):>13}{show(settled):>10}{statistics.median(constant):>10g}"
              f"{show(back):>12}{statistics.mean(cores):>8.2f}")


def cpu_seconds(process):
    """CPU time of a process, from schedstat in nanoseconds; /proc/PID/stat has ticks of 10 ms."""
    used = 0
    for task in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{task}/schedstat") as file:
            used += int(file.read().split()[0])
    return used / 1e9


def daemon(arguments, pid, lines=None):
    """Starts the daemon for a process; `lines` is a file for a line of JSON per tick."""
    command = [arguments.numapilot, "cores", "-p", str(pid), *(["--json"] if lines else [])]
    return subprocess.Popen(command, stdout=lines, stderr=subprocess.DEVNULL)


def stop(process):
    process.send_signal(signal.SIGINT)
    process.wait()


def switches(pid):
    count = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status") as file:
            count += sum(int(l.split()[1]) for l in file if "ctxt_switches" in l)
    return count


def migrations(pid):
    with open(f"/proc/{pid}/sched") as file:
        return sum(int(l.split(":")[1]) for l in file if l.startswith("se.nr_migrations"))


def family(pid):
    """A process and its children."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [pid, *map(int, file.read().split())]


class Target:
    """A target that computes in one process per CPU."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "work"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def figures(self):
        """Work done, the current time, context switches, migrations and CPU time so far."""
        print(file=self.process.stdin, flush=True)
        done, now = int(self.process.stdout.readline()), time.monotonic()
        pids = family(self.process.pid)
        return done, now, sum(map(switches, pids)), sum(map(migrations, pids)), sum(map(cpu_seconds, pids))

    def part(self, seconds):
        """Work, context switches, migrations and CPU time per second, over a part of the run."""
        before, begin, *events = self.figures()
        time.sleep(seconds)
        after, end, *events_then = self.figures()
        return [(now - was) / (end - begin) for was, now in zip([before, *events], [after, *events_then])]

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def pairs(arguments):
    """Parts of a target's time with and without the daemon, in alternating order, and the changes
    of its cores after settling."""
    target, seen, changes = Target(), {True: [], False: []}, 0
    time.sleep(SETTLING_S)
    for pair in range(arguments.pairs):
        for with_daemon in (True, False) if pair % 2 else (False, True):
            with tempfile.TemporaryFile("w+") as lines:
                process = daemon(arguments, target.process.pid, lines) if with_daemon else None
                time.sleep(SETTLING_S)
                seen[with_daemon].append(target.part(arguments.part))
                if process:
                    stop(process)
                lines.seek(0)
                ticks = [line for line in map(json.loads, lines) if line["time"] > SETTLING_S]
                changes += sum(line["done"]["cores"] != line["metrics"]["cores"] for line in ticks)
    target.end()
    return seen, changes


def interval(values):
    """The 95 % interval of the median, by bootstrap."""
    draws = random.Random(1)
    medians = sorted(statistics.median(draws.choices(values, k=len(values))) for _ in range(2000))
    return medians[50], medians[1949]


def share(arguments, script):
    """The daemon's own CPU time with a target, and the target's context switches."""
    target = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)
    time.sleep(1)
    process = daemon(arguments, target.pid)
    time.sleep(2)
    before, begin = (cpu_seconds(process.pid), switches(target.pid)), time.monotonic()
    time.sleep(arguments.seconds)
    took = time.monotonic() - begin
    used, switched = cpu_seconds(process.pid) - before[0], switches(target.pid) - before[1]
    stop(process)
    target.kill()
    target.wait()
    return used / took, switched


IDLE = "import sys; sys.stdin.read()"
BUSY = ("import threading\n"
        "def spin():\n    while True: pass\n"
        "for _ in range(4): threading.Thread(target=spin).start()")
MANY = ("import threading, sys\nthreading.stack_size(65536)\n"
        "for _ in range(1000): threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "sys.stdin.read()")


def cost(arguments):
    print(f"{len(os.sched_getaffinity(0))} CPUs, load average {os.getloadavg()[0]:.1f}")
    seen, changes = pairs(arguments)
    print(f"with the daemon over without, {arguments.pairs} pairs of {arguments.part:g} s, {changes} changes of cores:")
    for name, column in (("work", 0), ("CPU time", 3)):
        ratios = [a[column] / b[column] for a, b in zip(seen[True], seen[False])]
        low, high = interval(ratios)
        print(f"{name:8} median {statistics.median(ratios):.4f} (95 %: {low:.4f} to {high:.4f})")
    for name, rows in (("with", seen[True]), ("without", seen[False])):
        _, switched, migrated, _ = zip(*rows)
        print(f"{name:7} the daemon: {statistics.median(switched):.1f} context switches and "
              f"{statistics.median(migrated):.2f} migrations in a second")
    for name, script in (("idle", IDLE), ("4 busy threads", BUSY), ("1000 idle threads", MANY)):
        used, switched = share(arguments, script)
        print(f"{name:18} daemon {used * 100:5.2f} % of a CPU, "
              f"{switched} context switches of the target in {arguments.seconds} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["follow", "cost", "play", "work"])
    parser.add_argument("--numapilot", default="numapilot")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--part", type=float, default=2.0, help="seconds per part of a pair")
    parser.add_argument("--little", type=int, default=1, help="computing processes at the beginning")
    parser.add_argument("--much", type=int, help="computing processes in the step; by default half of the CPUs")
    parser.add_argument("--most", type=int, help="computing processes in the burst; by default all CPUs")
    parser.add_argument("--svg", help="prefix of the pictures' names")
    parser.add_argument("--log", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    {"follow": follow, "cost": cost, "play": play, "work": work}[arguments.what](arguments)


main()
