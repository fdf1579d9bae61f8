#!/usr/bin/env python3
"""W1 and W2 against DuckDB's GROUP BY on the same records with the same number of threads.

    python3 -m venv venv && venv/bin/pip install duckdb numpy
    venv/bin/python scripts/compare-duckdb.py --numapilot target/release/numapilot

Both programs take turns, and who begins changes from round to round. Times are of the query
alone, with the records in memory. Each run is the first query of a fresh process: one that has
run it before has the memory already, which the other would still have to get from the kernel
(--warm: DuckDB runs it twice and the second time counts). DuckDB runs each query in two forms
that compute the whole result, an outer sum over all groups and a CREATE TABLE AS; the faster
form counts. Every result is compared in full, by the checksum that numapilot prints.
"""

import argparse
import concurrent.futures
import json
import multiprocessing
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
    parser.add_argument("--warm", action="store_true",
                        help="DuckDB runs each query twice and the second time counts")
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
            with tempfile.NamedTemporaryFile(dir=options.directory) as records_file:
                subprocess.run([options.numapilot, "bench", "w2", *source, "--dump",
                                records_file.name], check=True, stdout=subprocess.DEVNULL)
                for workload in options.workloads.split(","):
                    compare(options, records_file.name, workload, data, records, groups, source)


def compare(options, path, workload, data, records, groups, source):
    """One line of the table."""
    command = [options.numapilot, "bench", workload, *source, "--json",
               "--threads", str(options.threads)]
    if options.estimate:
        command += ["--estimate", options.estimate]
    turns = {"ours": (ours, command)}
    turns |= {form: (fresh, theirs, path, workload, form, options) for form in FORMS}
    seconds, cpu = {who: [] for who in turns}, {who: [] for who in turns}
    for turn in range(options.rounds):
        answers = set()
        for who in list(turns)[::1 if turn % 2 == 0 else -1]:
            run, *arguments = turns[who]
            wall, processor, answer = run(*arguments)
            seconds[who].append(wall)
            cpu[who].append(processor)
            answers |= {answer} - {None}
        if len(answers) != 1:
            sys.exit(f"{workload} {data}: different results: {answers}")
    seconds = {who: statistics.median(times) for who, times in seconds.items()}
    cpu = {who: statistics.median(times) for who, times in cpu.items()}
    form = min(FORMS, key=seconds.get)
    print(f"{workload:4}{data:16}{records:>8}{groups:>8}{seconds['ours']:11.3f}{seconds[form]:9.3f}"
          f"{form:>7}{seconds['ours'] / seconds[form]:7.2f}{cpu['ours'] / cpu[form]:11.2f}",
          flush=True)


def ours(command):
    """Runs numapilot once; returns wall and CPU seconds and the answer."""
    outcome = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return outcome["seconds"], outcome["cpu_seconds"], (outcome["groups"], outcome["checksum"])


def fresh(function, *arguments):
    """Calls a function in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as process:
        return process.submit(function, *arguments).result()


def theirs(path, workload, form, options):
    """Runs one form of the query in DuckDB; the checksum of the table comes after it."""
    records = numpy.fromfile(path, dtype="<u8").reshape(-1, 2)
    columns = {"key": records[:, 0].copy(), "value": records[:, 1].copy()}  # noqa: F841
    connection = duckdb.connect(config={"threads": options.threads})
    connection.execute("PRAGMA disable_progress_bar")
    connection.execute("CREATE TABLE records AS SELECT * FROM columns")
    aggregate = AGGREGATES[workload]
    query = f"SELECT key, {aggregate} AS result FROM records GROUP BY key"
    for _ in range(2 if options.warm else 1):
        before, start = cpu_seconds(), time.perf_counter()
        connection.execute(FORMS[form].format(query=query)).fetchall()
        wall, processor = time.perf_counter() - start, cpu_seconds() - before
    return wall, processor, checksum(connection, workload) if form == "table" else None


def checksum(connection, workload):
    """Number of groups and checksum of the result table, as numapilot prints them."""
    rows = connection.execute("SELECT key, result FROM result").fetchnumpy()
    factor = 2 if workload == "w1" else 1
    values = (numpy.asarray(rows["result"]) * factor).astype(numpy.uint64)
    keys = numpy.asarray(rows["key"]).astype(numpy.uint64) + numpy.uint64(1)
    with numpy.errstate(over="ignore"):
        total = int(numpy.sum(mix(mix(keys) ^ values), dtype=numpy.uint64))
    return len(keys), f"{total:016x}"


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
