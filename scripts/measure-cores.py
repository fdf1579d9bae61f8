#!/usr/bin/env python3
"""How well `numapilot cores` follows a real load, and what it costs.

    cargo build --release -p numapilot
    python3 scripts/measure-cores.py follow --numapilot target/release/numapilot --svg cores
    python3 scripts/measure-cores.py cost --numapilot target/release/numapilot

`follow` starts processes that compute or wait, as many computing as the load says: little, a
step up, back to little, a burst of a second, and little again. A change counts from the moment
at which the load changed to the first tick from which on the program has the cores: as many as
compute (step), or, after the burst, no more than `little` keeps busy for 45 %, which is where
default mode has to arrive and the published rule does not. `constant` is the number of changes
of cores during the last two thirds of the step. Also for an emulated machine with more CPUs:

    numapilot lab run -m opteron-8385 --no-model --include python3 --include /usr/lib/python3.11 \\
        --include $PWD/scripts/measure-cores.py -- python3 $PWD/scripts/measure-cores.py follow

`cost` compares the work that a thread on each CPU does with the daemon and without, in pairs, who
is first changing from pair to pair, after two seconds for settling, and counts what happened to it:
changes of its cores, its context switches and migrations. It counts the context switches of
an idle target, and takes the daemon's own CPU time, for an idle target, one of a few threads and one of a thousand.
"""

import argparse
import json
import math
import mmap
import os
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

TICK_S = 0.1
MODES = ["paper", "default"]


def compute(active, work, index):
    """Computes while it is among the first so many, else waits for a signal."""
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
    """Processes of which so many compute."""

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
    """The load: says when it changes, by the clock that all processes share."""
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
    """A process on each CPU that computes; says how much was done when it is asked."""
    load = Load(len(os.sched_getaffinity(0)))
    load.set(len(load.children))
    for _ in sys.stdin:
        print(load.done(), flush=True)
    load.end()


def follow_once(arguments, mode):
    """Ticks of one run: when they came, cores, and what was busy; and when the load changed."""
    log = f"/tmp/measure-cores-{os.getpid()}.log"
    command = [arguments.numapilot, "cores", "--mode", mode, "--json"]
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
    """Ticks from `begin` to the first after which `holds` is true of the cores; None if never."""
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
    """In nanoseconds where /proc/PID/stat has ticks of 10 ms."""
    used = 0
    for task in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{task}/schedstat") as file:
            used += int(file.read().split()[0])
    return used / 1e9


def daemon(arguments, pid, lines=None):
    """Controls a process; `lines` is a file for a line of JSON for each tick."""
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


def throughput(arguments, with_daemon):
    """Of a process on each CPU, for each second after settling: work, context switches and
    migrations; and changes of its cores in all that time."""
    target = subprocess.Popen([sys.executable, os.path.abspath(__file__), "work"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def done():
        print(file=target.stdin, flush=True)
        figures = int(target.stdout.readline()), time.monotonic()
        pids = family(target.pid)
        return (*figures, sum(map(switches, pids)), sum(map(migrations, pids)))

    lines = tempfile.TemporaryFile("w+")
    process = daemon(arguments, target.pid, lines) if with_daemon else None
    time.sleep(2)
    before, begin, switched, migrated = done()
    time.sleep(arguments.seconds)
    after, end, switched_then, migrated_then = done()
    if process:
        stop(process)
    lines.seek(0)
    changes = sum(line["done"]["cores"] != line["metrics"]["cores"] for line in map(json.loads, lines))
    target.stdin.close()
    target.wait()
    took = end - begin
    return ((after - before) / took, (switched_then - switched) / took,
            (migrated_then - migrated) / took, changes)


def share(arguments, script):
    """The daemon's own CPU time beside a target, and the target's context switches."""
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
    seen = {True: [], False: []}
    for pair in range(arguments.rounds):
        for with_daemon in (True, False) if pair % 2 else (False, True):
            seen[with_daemon].append(throughput(arguments, with_daemon))
    ratios = [a[0] / b[0] for a, b in zip(seen[True], seen[False])]
    print(f"work with the daemon over without, {arguments.rounds} pairs: median "
          f"{statistics.median(ratios):.4f} ({min(ratios):.4f} to {max(ratios):.4f})")
    for name, rows in (("with", seen[True]), ("without", seen[False])):
        _, switched, migrated, changes = zip(*rows)
        print(f"{name:7} the daemon: {statistics.median(switched):.1f} context switches and "
              f"{statistics.median(migrated):.2f} migrations in a second, {sum(changes)} changes of cores")
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
    parser.add_argument("--little", type=int, default=1, help="computing processes at first")
    parser.add_argument("--much", type=int, help="and in the step; half of the CPUs")
    parser.add_argument("--most", type=int, help="and in the burst; all CPUs")
    parser.add_argument("--svg", help="beginning of the pictures' names")
    parser.add_argument("--log", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    {"follow": follow, "cost": cost, "play": play, "work": work}[arguments.what](arguments)


main()
