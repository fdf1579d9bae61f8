#!/usr/bin/env python3
"""Compares glibc's allocator and numapilot's under real programs.

    cargo build --release --workspace
    python3 scripts/compare-programs.py --numapilot target/release/numapilot

Each round runs each program once under each allocator, one right after the other; the order
alternates from round to round. `numapilot stat` measures time and memory of all processes of a run.
Ratios are computed within a round; the table shows their median, below 1 where numapilot's
allocator is better. A program must print the same under both allocators. Programs that are not
installed are reported and left out.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

PYTHON_JSON = """
import json
rows = [{"id": i, "name": "row %d" % i, "tags": ["a", "b", str(i)], "x": i / 7} for i in range(60000)]
for _ in range(4):
    text = json.dumps(rows)
    rows = json.loads(text)
print(len(text))
"""

PYTHON_REGEX = """
import re
text = " ".join("user%d@host%d.example.org, %d.%02d EUR" % (i, i % 97, i, i % 100) for i in range(120000))
print(len(re.findall(r"(\\w+)@(\\w+)\\.example\\.org", text)), len(re.sub(r"(\\d+)\\.(\\d\\d)", r"\\2,\\1", text)))
"""

PERL_HASH = """
my %h; $h{"key" . ($_ * 7919 % 300007)} .= "value $_," for 1 .. 600000;
my $n = 0; $n += length for values %h; print scalar(keys %h), " $n\\n";
"""

SQLITE = """
CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER, name TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400000)
INSERT INTO t SELECT i, i * 7919 % 100003, 'name ' || i FROM n;
CREATE INDEX by_k ON t(k);
SELECT count(*), sum(length(name)) FROM (SELECT k, max(name) AS name FROM t GROUP BY k ORDER BY name);
SELECT count(*) FROM t a JOIN t b ON a.k = b.k AND a.id < b.id;
"""

CPP = """
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <unordered_map>
int main() {
  std::map<std::string, std::function<int(int)>> m{{"a", [](int i) { return i + 1; }}};
  std::unordered_map<std::string, std::regex> r{{"x", std::regex("[a-z]+(\\\\d*)")}};
  std::smatch found;
  std::string s = "abc12";
  std::cout << std::regex_match(s, found, r["x"]) << m["a"](1) << std::endl;
}
"""

NODE = """
let rows = [...Array(150000).keys()].map(i => ({id: i, name: "row " + i, tags: ["a", String(i)]}));
for (let i = 0; i < 3; i++) rows = JSON.parse(JSON.stringify(rows));
console.log(rows.length, Buffer.concat(rows.map(r => Buffer.from(r.name))).length);
"""

JAVA = """
import java.util.*;
class Rows {
  public static void main(String[] a) {
    Map<String, List<Integer>> m = new HashMap<>();
    for (int i = 0; i < 2000000; i++) m.computeIfAbsent("key" + i % 50021, k -> new ArrayList<>()).add(i);
    System.out.println(m.size());
  }
}
"""

DUCKDB = """
import duckdb
c = duckdb.connect()
c.execute("SET threads = 2")
c.execute("CREATE TABLE t AS SELECT i, i * 7919 % 1000003 AS k, 'name ' || i AS name FROM range(2000000) r(i)")
print(c.execute("SELECT count(*), sum(n) FROM (SELECT k, count(*) n, max(name) FROM t GROUP BY k)").fetchall())
print(c.execute("SELECT count(*) FROM t a JOIN t b ON a.k = b.k AND a.i < b.i").fetchall())
"""

REDIS = """
redis-server --port 0 --unixsocket $PWD/socket --save '' --appendonly no --daemonize no >/dev/null &
until redis-cli -s $PWD/socket ping >/dev/null 2>&1; do sleep 0.05; done
redis-benchmark -s $PWD/socket -q -n 100000 -r 100000 -d 200 -t set,lpush,hset >/dev/null
redis-cli -s $PWD/socket shutdown nosave
wait
"""

POSTGRES = """
DROP TABLE IF EXISTS t;
CREATE UNLOGGED TABLE t AS SELECT i, i * 7919::bigint % 100003 AS k, 'name ' || i AS name FROM generate_series(1, 500000) i;
SELECT count(*), sum(length(m)) FROM (SELECT k, max(name) AS m FROM t GROUP BY k) g;
SELECT count(*) FROM t a JOIN t b ON a.k = b.k AND a.i < b.i;
SELECT count(*) FROM (SELECT name, rank() OVER (PARTITION BY k ORDER BY i DESC) FROM t) w;
"""


FILES = {
    "json_.py": PYTHON_JSON,
    "re_.py": PYTHON_REGEX,
    "hash.pl": PERL_HASH,
    "sqlite.sql": SQLITE,
    "program.cpp": CPP,
    "rows.js": NODE,
    "Rows.java": JAVA,
    "duck.py": DUCKDB,
    "redis.sh": REDIS,
    "postgres.sql": POSTGRES,
}


def programs(numapilot):
    """Name, required program and command, in the order of the table."""
    bench = [numapilot, "bench"]
    return [
        ("python3: json", "python3", [sys.executable, "json_.py"]),
        ("python3: re", "python3", [sys.executable, "re_.py"]),
        ("perl: hash of strings", "perl", ["perl", "hash.pl"]),
        ("sqlite3: in memory", "sqlite3", ["sh", "-c", "sqlite3 :memory: < sqlite.sql"]),
        ("g++ -O2", "g++", ["g++", "-O2", "-c", "-o", "/dev/null", "program.cpp"]),
        ("node: JSON", "node", ["node", "rows.js"]),
        ("java: hash map", "java", ["java", "Rows.java"]),
        ("redis: set, lpush, hset", "redis-benchmark", ["sh", "redis.sh"]),
        ("postgres: one session", "initdb", as_user(
            ["sh", "-c", "postgres --single -j -D data postgres < postgres.sql | grep -c ="])),
        ("DuckDB", None, [sys.executable, "duck.py"]),
        ("w1, 2 threads", None, bench + ["w1", "-t2", "--records=3M", "--groups=300k"]),
        ("alloc mix, 1 thread", None, bench + ["alloc", "mix", "-t1", "-n2M"]),
    ]


def as_user(command):
    """PostgreSQL refuses to run as root."""
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command] if os.geteuid() == 0 else command


def prepare(directory):
    for name, text in FILES.items():
        with open(os.path.join(directory, name), "w") as file:
            file.write(text)
    # In a session's standard input, each statement ends at an empty line.
    with open(os.path.join(directory, "postgres.sql"), "w") as file:
        file.write(POSTGRES.strip().replace(";\n", ";\n\n") + "\n\n")
    os.chmod(directory, 0o777)
    if shutil.which("initdb"):
        initdb = as_user(["initdb", "-D", "data", "--no-sync"])
        subprocess.run(initdb, cwd=directory, check=True, capture_output=True)


def run(numapilot, allocator, command, directory):
    """Figures of a run, and the output of the program."""
    report = os.path.join(directory, "report.json")
    plan = [numapilot, "stat", "--json", "-o", report, "--"]
    plan += [numapilot, "run", "--allocator", allocator, "--"]
    done = subprocess.run(plan + command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode(errors="replace").strip()[-300:])
    with open(report) as file:
        figures = json.load(file)
    text = done.stdout.decode(errors="replace")
    checksums = [line for line in text.splitlines() if line.startswith("checksum")]
    return {
        "cpu": figures["user_seconds"] + figures["system_seconds"],
        "wall": figures["seconds"],
        "rss": figures["peak_rss_bytes"],
    }, checksums or text


def compare(numapilot, command, directory, rounds):
    """Median ratios of numapilot's allocator to glibc's, and the median CPU time with glibc."""
    ratios, cpu = {"cpu": [], "wall": [], "rss": []}, []
    for number in range(rounds):
        order = ["glibc", "numapilot"][:: 1 if number % 2 else -1]
        runs = {allocator: run(numapilot, allocator, command, directory) for allocator in order}
        (glibc, said), (ours, said_too) = runs["glibc"], runs["numapilot"]
        if said != said_too:
            raise RuntimeError(f"it printed {said_too!r} instead of {said!r}")
        cpu.append(glibc["cpu"])
        for measure, values in ratios.items():
            values.append(ours[measure] / glibc[measure])
    return {measure: statistics.median(values) for measure, values in ratios.items()}, statistics.median(cpu)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--numapilot", default="target/release/numapilot", metavar="PROGRAM")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", metavar="TEXT", help="programs whose name contains this")
    options = parser.parse_args()
    numapilot = os.path.abspath(options.numapilot)
    print("| program | CPU s, glibc | CPU time | wall time | peak RSS |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        prepare(directory)
        for name, needed, command in programs(numapilot):
            if options.only not in name:
                continue
            if needed and not shutil.which(needed):
                print(f"{name}: left out, {needed} is not installed", file=sys.stderr)
                continue
            try:
                ratio, cpu = compare(numapilot, command, directory, options.rounds)
            except RuntimeError as error:
                print(f"{name}: {error}", file=sys.stderr)
                continue
            print(f"| {name} | {cpu:.2f} | {ratio['cpu']:.2f} | {ratio['wall']:.2f} | {ratio['rss']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
