#!/usr/bin/env python3
"""W1 and W2 against DuckDB's GROUP BY on the same records with the same number of threads.

    python3 -m venv venv && venv/bin/pip install duckdb numpy
    venv/bin/python scripts/compare-duckdb.py --numapilot target/release/numapilot

Both programs take turns, and who begins changes from round to round. Times are of the query
alone, with the records in memory. DuckDB runs each query in two forms that compute the whole
result, an outer sum over all groups and a CREATE TABLE AS; the faster form counts. Every
result is compared in full, by the checksum that numapilot prints.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import duckdb
import numpy

AGGREGATES = {"w1": "median(value)", "w2": "count(*)"}
FORMS = {
    "sum": "SELECT count(*), sum(result) FROM ({query})",
    "table": "CREATE OR REPLACE TEMP TABLE result AS {query}",
}
DATA_SETS = ["moving-cluster", "sequential", "zipf", "heavy-hitter"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--numapilot", default="target/release/numapilot", metavar="PROGRAM")
    parser.add_argument("--workloads", default="w1,w2", metavar="NAMES")
    parser.add_argument("--data", default=",".join(DATA_SETS), metavar="SETS")
    parser.add_argument("--sizes", default="10M/100k,10M/1M", metavar="RECORDS/GROUPS,...")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--estimate", metavar="N",
                        help="groups for which numapilot makes its table (default: as many as there are)")
    parser.add_argument("--directory", help="where the records are written (default: the temporary directory)")
    options = parser.parse_args()

    print(f"DuckDB {duckdb.__version__}, {options.threads} threads, {options.rounds} rounds; "
          "medians in seconds, ratio = numapilot / DuckDB\n")
    print(f"{'':4}{'data set':16}{'records':>8}{'groups':>8}{'numapilot':>11}{'DuckDB':>9}"
          f"{'form':>7}{'ratio':>7}{'CPU ratio':>11}")
    for size in options.sizes.split(","):
        records, groups = size.split("/")
        for data in options.data.split(","):
            source = ["--data", data, "--records", records, "--groups", groups]
            connection = load(options, source)
            for workload in options.workloads.split(","):
                compare(options, connection, workload, data, records, groups, source)


def load(options, source):
    """The records as a table of DuckDB."""
    with tempfile.NamedTemporaryFile(dir=options.directory) as file:
        subprocess.run([options.numapilot, "bench", "w2", *source, "--dump", file.name],
                       check=True, stdout=subprocess.DEVNULL)
        records = numpy.fromfile(file.name, dtype="<u8").reshape(-1, 2)
    columns = {"key": records[:, 0].copy(), "value": records[:, 1].copy()}  # noqa: F841
    connection = duckdb.connect(config={"threads": options.threads})
    connection.execute("CREATE TABLE records AS SELECT * FROM columns")
    return connection


def compare(options, connection, workload, data, records, groups, source):
    """One line of the table."""
    command = [options.numapilot, "bench", workload, *source, "--json",
               "--threads", str(options.threads)]
    if options.estimate:
        command += ["--estimate", options.estimate]
    query = f"SELECT key, {AGGREGATES[workload]} AS result FROM records GROUP BY key"
    turns = [lambda: ours(command, seconds, cpu)]
    turns += [lambda form=form: theirs(connection, query, form, seconds, cpu) for form in FORMS]
    seconds, cpu = {}, {}
    for turn in range(options.rounds):
        answers = [run() for run in (turns if turn % 2 == 0 else reversed(turns))]
        if len(set(filter(None, answers))) != 1:
            sys.exit(f"{workload} {data}: different results: {answers}")
    seconds = {who: statistics.median(times) for who, times in seconds.items()}
    cpu = {who: statistics.median(times) for who, times in cpu.items()}
    form = min(FORMS, key=seconds.get)
    print(f"{workload:4}{data:16}{records:>8}{groups:>8}{seconds['ours']:11.3f}{seconds[form]:9.3f}"
          f"{form:>7}{seconds['ours'] / seconds[form]:7.2f}{cpu['ours'] / cpu[form]:11.2f}",
          flush=True)


def ours(command, seconds, cpu):
    """Runs numapilot once."""
    outcome = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    seconds.setdefault("ours", []).append(outcome["seconds"])
    cpu.setdefault("ours", []).append(outcome["cpu_seconds"])
    return outcome["groups"], outcome["checksum"]


def theirs(connection, query, form, seconds, cpu):
    """Runs one form of the query in DuckDB; the checksum of the table comes after it."""
    before, start = cpu_seconds(), time.perf_counter()
    connection.execute(FORMS[form].format(query=query)).fetchall()
    seconds.setdefault(form, []).append(time.perf_counter() - start)
    cpu.setdefault(form, []).append(cpu_seconds() - before)
    if form != "table":
        return None
    rows = connection.execute("SELECT key, result FROM result").fetchnumpy()
    factor = 2 if query.startswith("SELECT key, median") else 1
    values = (numpy.asarray(rows["result"]) * factor).astype(numpy.uint64)
    keys = numpy.asarray(rows["key"]).astype(numpy.uint64) + numpy.uint64(1)
    with numpy.errstate(over="ignore"):
        checksum = int(numpy.sum(mix(mix(keys) ^ values), dtype=numpy.uint64))
    return len(keys), f"{checksum:016x}"


def mix(x):
    """The finaliser of SplitMix64."""
    x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return x ^ (x >> numpy.uint64(31))


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
