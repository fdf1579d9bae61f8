# Runs queries for numapilot: one JSON object per line in, one out.
#
#   in   {"client": 0, "sql": "..."}     one thread and one connection for each client
#        {"stop": true}                  or the end of the input
#   out  {"ready": "DuckDB 2.0.0"}       or {"failed": "..."}
#        {"client": 0, "seconds": 0.1, "rows": [["1", null]]}
#        {"client": 0, "error": "..."}
#
# Arguments: the database, "load" or "serve", the directory for spilling, the limit of a query in
# seconds (0: none), and settings as NAME=VALUE.

import decimal
import json
import os
import queue
import sys
import threading
import time

output_lock = threading.Lock()


def say(message):
    line = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    with output_lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def text(value):
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return repr(value)
    return str(value)


def answer(connection, sql, limit):
    timer = threading.Timer(limit, connection.interrupt) if limit > 0 else None
    if timer:
        timer.start()
    began = time.perf_counter()
    try:
        rows = connection.execute(sql).fetchall()
        seconds = time.perf_counter() - began
    except Exception as error:
        late = limit > 0 and time.perf_counter() - began >= limit
        return {"error": f"ended after {limit:g} s" if late else str(error)}
    finally:
        if timer:
            timer.cancel()
    return {"seconds": seconds, "rows": [[text(value) for value in row] for row in rows]}


def serve(client, connection, requests, limit):
    while True:
        say({"client": client, **answer(connection, requests.get(), limit)})


def main():
    path, mode, spill, limit, *settings = sys.argv[1:]
    try:
        import duckdb

        config = {"temp_directory": spill, "threads": str(len(os.sched_getaffinity(0)))}
        config.update(setting.split("=", 1) for setting in settings)
        database = duckdb.connect(path, read_only=mode == "serve", config=config)
    except Exception as error:
        say({"failed": str(error)})
        sys.exit(1)
    say({"ready": "DuckDB " + duckdb.__version__})
    clients = {}
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("stop"):
            break
        client = request["client"]
        if client not in clients:
            clients[client] = queue.SimpleQueue()
            arguments = (client, database.cursor(), clients[client], float(limit))
            threading.Thread(target=serve, args=arguments, daemon=True).start()
        clients[client].put(request["sql"])
    if mode == "load":
        database.close()
    # Threads in the middle of a query are not waited for.
    sys.stdout.flush()
    os._exit(0)


main()
