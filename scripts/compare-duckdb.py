#!/usr/bin/env python3
"""Compares W1, W2 and W3 with DuckDB, on the same records and with as many threads.

    python3 -m venv venv && venv/bin/pip install duckdb numpy
    venv/bin/python scripts/compare-duckdb.py --numapilot target/release/numapilot

Both programs take turns; the order alternates from round to round. Times are those of the query
alone, with the records in memory. Each run is the first query of a new process, because a process
that has already run it has its memory, which the other would still have to get from the kernel
(--warm: DuckDB runs the query twice, and the second time counts). DuckDB runs each query in two
forms that compute the whole result: an outer sum over all groups, and a CREATE TABLE AS. The faster
form counts. All results are compared in full, by the checksum that numapilot prints.

W3 is compared with three queries: a count over the join, the sum of the products of both payloads
(which W3 computes), and the join written to a table (W3 --materialize).
"""

import argparse
import concurrent.futures
import contextlib
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
JOIN = "FROM large JOIN small ON large.key = small.key"
JOINS = {
    "count": f"SELECT count(*) {JOIN}",
    "sum": f"SELECT count(*), sum(small.value * large.value) {JOIN}",
    "table": f"CREATE OR REPLACE TEMP TABLE result AS SELECT small.value AS small, large.value AS large {JOIN}",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--numapilot", default="target/release/numapilot", metavar="PROGRAM")
    parser.add_argument("--workloads", default="w1,w2,w3", metavar="NAMES")
    parser.add_argument("--data", default=",".join(DATA_SETS), metavar="SETS")
    parser.add_argument("--sizes", default="10M/100k,10M/1M", metavar="RECORDS/GROUPS,...")
    parser.add_argument("--join-data", default="shuffle,zipf", metavar="SETS")
    parser.add_argument("--join-sizes", default="2Mi/32Mi", metavar="SMALL/LARGE,...")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--estimate", metavar="N",
                        help="groups for which numapilot sizes its table (default: the actual number)")
    parser.add_argument("--warm", action="store_true",
                        help="DuckDB runs each query twice, and the second time counts")
    parser.add_argument("--directory", help="directory for the records (default: the temporary directory)")
    options = parser.parse_args()

    workloads = options.workloads.split(",")
    print(f"DuckDB {duckdb.__version__}, {options.threads} threads, {options.rounds} rounds; "
          "medians in seconds, ratio = numapilot / DuckDB\n")
    if aggregations := [workload for workload in workloads if workload in AGGREGATES]:
        heading("records", "groups")
        for records, groups in sizes(options.sizes):
            for data in options.data.split(","):
                source = ["--data", data, "--records", records, "--groups", groups]
                with dumped(options, "w2", source) as path:
                    for workload in aggregations:
                        compare(options, path, workload, data, records, groups, source)
    if "w3" in workloads:
        if aggregations:
            print()
        heading("small", "large")
        for small, large in sizes(options.join_sizes):
            for data in options.join_data.split(","):
                source = ["--data", data, "--small", small, "--large", large]
                with dumped(options, "w3", source) as path:
                    compare_join(options, path, data, small, large, source)


def sizes(text):
    return [size.split("/") for size in text.split(",")]


@contextlib.contextmanager
def dumped(options, workload, source):
    """A file of the records that a workload reads."""
    with tempfile.NamedTemporaryFile(dir=options.directory) as file:
        subprocess.run([options.numapilot, "bench", workload, *source, "--dump", file.name],
                       check=True, stdout=subprocess.DEVNULL)
        yield file.name


def compare(options, path, workload, data, records, groups, source):
    """One line of the table."""
    command = command_of(options, workload, source)
    if options.estimate:
        command += ["--estimate", options.estimate]
    turns = {"ours": (ours, command)}
    turns |= {form: (fresh, theirs, path, workload, form, options) for form in FORMS}
    seconds, cpu = measure(options, turns, f"{workload} {data}")
    form = min(FORMS, key=seconds.get)
    line(workload, data, records, groups, form, seconds, cpu, "ours")


def compare_join(options, path, data, small, large, source):
    """Three lines of the table; two of them share our figures."""
    command = command_of(options, "w3", source)
    turns = {"counted": (ours, command), "written": (ours, command + ["--materialize"])}
    turns |= {form: (fresh, their_join, path, form, options) for form in JOINS}
    seconds, cpu = measure(options, turns, f"w3 {data}")
    for form in JOINS:
        mine = "written" if form == "table" else "counted"
        line("w3", data, small, large, form, seconds, cpu, mine)


def command_of(options, workload, source):
    return [options.numapilot, "bench", workload, *source, "--json",
            "--threads", str(options.threads)]


def measure(options, turns, what):
    """Runs the candidates in turn; returns their median wall and CPU seconds."""
    seconds, cpu = {name: [] for name in turns}, {name: [] for name in turns}
    for turn in range(options.rounds):
        answers = set()
        for name in list(turns)[::1 if turn % 2 == 0 else -1]:
            run, *arguments = turns[name]
            wall, processor, answer = run(*arguments)
            seconds[name].append(wall)
            cpu[name].append(processor)
            answers |= {answer} - {None}
        if len(answers) != 1:
            sys.exit(f"{what}: different results: {answers}")
    return ({name: statistics.median(times) for name, times in seconds.items()},
            {name: statistics.median(times) for name, times in cpu.items()})


def heading(first, second):
    print(f"{'':4}{'data set':16}{first:>8}{second:>8}{'numapilot':>11}{'DuckDB':>9}"
          f"{'form':>7}{'ratio':>7}{'CPU ratio':>11}")


def line(workload, data, first, second, form, seconds, cpu, mine):
    print(f"{workload:4}{data:16}{first:>8}{second:>8}{seconds[mine]:11.3f}{seconds[form]:9.3f}"
          f"{form:>7}{seconds[mine] / seconds[form]:7.2f}{cpu[mine] / cpu[form]:11.2f}",
          flush=True)


def ours(command):
    """Runs numapilot once; returns wall and CPU seconds and the answer."""
    outcome = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    size = outcome["groups"] if "groups" in outcome else outcome["rows"]
    return outcome["seconds"], outcome["cpu_seconds"], (size, outcome["checksum"])


def fresh(function, *arguments):
    """Calls a function in a new process."""
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as process:
        return process.submit(function, *arguments).result()


def theirs(path, workload, form, options):
    """Runs one form of the query in DuckDB, then computes the checksum of its table."""
    connection = connect(options)
    table(connection, "records", numpy.fromfile(path, dtype="<u8").reshape(-1, 2))
    aggregate = AGGREGATES[workload]
    query = f"SELECT key, {aggregate} AS result FROM records GROUP BY key"
    wall, processor, _ = timed(connection, FORMS[form].format(query=query), options)
    return wall, processor, checksum(connection, workload) if form == "table" else None


def their_join(path, form, options):
    """Runs one form of the join in DuckDB. The file begins with the small table; the row numbers
    of the large table begin with 1 again."""
    records = numpy.fromfile(path, dtype="<u8").reshape(-1, 2)
    small = int(numpy.flatnonzero(records[:, 1] == 1)[1])
    connection = connect(options)
    table(connection, "small", records[:small])
    table(connection, "large", records[small:])
    large = len(records) - small
    del records
    wall, processor, rows = timed(connection, JOINS[form], options)
    if form == "table":
        rows = connection.execute("SELECT small, large FROM result").fetchnumpy()
        products = rows["small"].astype(numpy.uint64) * rows["large"].astype(numpy.uint64)
        return wall, processor, join_answer(len(products), int(products.sum(dtype=numpy.uint64)))
    if rows[0][0] != large:
        sys.exit(f"w3: DuckDB counts {rows[0][0]} rows, there are {large}")
    return wall, processor, join_answer(*rows[0]) if form == "sum" else None


def connect(options):
    connection = duckdb.connect(config={"threads": options.threads})
    connection.execute("PRAGMA disable_progress_bar")
    return connection


def table(connection, name, records):
    """Makes a table of two columns."""
    columns = {"key": records[:, 0].copy(), "value": records[:, 1].copy()}
    connection.register("columns", columns)
    connection.execute(f"CREATE TABLE {name} AS SELECT * FROM columns")
    connection.unregister("columns")


def timed(connection, query, options):
    """Runs a query; returns wall and CPU seconds and its rows."""
    for _ in range(2 if options.warm else 1):
        before, start = cpu_seconds(), time.perf_counter()
        rows = connection.execute(query).fetchall()
        wall, processor = time.perf_counter() - start, cpu_seconds() - before
    return wall, processor, rows


def join_answer(rows, total):
    """Number of rows and checksum of a join, as numapilot prints them."""
    with numpy.errstate(over="ignore"):
        total = numpy.uint64(int(total) % 2**64)
        checksum = mix(mix(numpy.uint64(rows + 1)) ^ total)
    return rows, f"{int(checksum):016x}"


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
