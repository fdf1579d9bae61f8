# An application of Spark: answers one query over the Parquet files of a directory, and prints one
# JSON object.
#
#   rows       the answer, as text
#   known      how many executors the driver knows
#   executors  what the kernel says of each executor's process while it runs
#
# Arguments: the directory, the query, and the names of the tables in it.

import json
import os
import sys

from pyspark.sql import SparkSession

BACKEND = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def text(cell):
    return None if cell is None else str(cell)


def lines(process, name):
    with open(f"/proc/{process}/{name}") as file:
        return file.read().splitlines()


def is_executor(process, application):
    """Whether a process is the Java machine of an executor, and not what has started it."""
    with open(f"/proc/{process}/cmdline") as file:
        words = file.read().split("\0")
    is_java = os.path.basename(os.readlink(f"/proc/{process}/exe")) == "java"
    return is_java and BACKEND in words and application in words


def state(process):
    fields = (line.partition(":") for line in lines(process, "status"))
    status = {name: value.strip() for name, _, value in fields}
    libraries = {line.split()[5] for line in lines(process, "maps") if line.endswith(".so")}
    return {
        "thp": status["THP_enabled"],
        "cpus": status["Cpus_allowed_list"],
        "policies": sorted({line.split()[1] for line in lines(process, "numa_maps")}),
        "libraries": sorted(libraries),
    }


def executors(application):
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            if is_executor(process, application):
                found.append(state(process))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            # It has ended, or belongs to somebody else.
            continue
    return found


def main():
    directory, sql, *tables = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    for table in tables:
        path = os.path.join(directory, table + ".parquet")
        spark.read.parquet(path).createOrReplaceTempView(table)
    rows = [[text(cell) for cell in row] for row in spark.sql(sql).collect()]
    context = spark.sparkContext
    # The driver is one of them.
    known = len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1
    print(json.dumps({"rows": rows, "known": known, "executors": executors(context.applicationId)}))
    spark.stop()


main()
