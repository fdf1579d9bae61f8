# Runs queries for numapilot. Each line of input and output is one JSON object.
#
#   in   {"client": 0, "sql": "..."}     one thread and one client of the engine for each client
#        {"stop": true}                  or the end of the input
#   out  {"ready": "DuckDB 1.5.5"}       or {"failed": "..."}
#        {"client": 0, "seconds": 0.1, "rows": [["1", null]]}
#        {"client": 0, "error": "..."}
#
# Arguments: the database, "load" or "serve", the directory for spilling, the limit of a query in
# seconds (0: none), and settings as NAME=VALUE. The engine is in the module beside this one.

import decimal
import json
import os
import queue
import sys
import threading
import time

output_lock = threading.Lock()
# Anything else that the engine prints goes to the messages, not between the answers.
output = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)


def say(message):
    line = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    with output_lock:
        output.write(line + "\n")
        output.flush()


def text(value):
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return repr(value)
    return str(value)


def answer(client, sql, limit):
    began = time.perf_counter()
    try:
        rows = client.rows(sql, limit)
        seconds = time.perf_counter() - began
    except Exception as error:
        late = 0 < limit <= time.perf_counter() - began
        return {"error": f"ended after {limit:g} s" if late else str(error)}
    if 0 < limit <= seconds:
        # It ended before it could be interrupted.
        return {"error": f"took longer than {limit:g} s"}
    return {"seconds": seconds, "rows": [[text(value) for value in row] for row in rows]}


def serve(number, client, requests, limit):
    while (sql := requests.get()) is not None:
        say({"client": number, **answer(client, sql, limit)})
    client.close()


def main():
    path, mode, spill, limit, *settings = sys.argv[1:]
    try:
        import engine

        settings = dict(setting.split("=", 1) for setting in settings)
        threads = len(os.sched_getaffinity(0))
        database = engine.Database(path, mode == "serve", spill, threads, settings)
    except Exception as error:
        say({"failed": str(error)})
        sys.exit(1)
    say({"ready": engine.TITLE})
    clients, threads = {}, []
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("stop"):
            break
        number = request["client"]
        if number not in clients:
            clients[number] = queue.SimpleQueue()
            arguments = (number, database.client(), clients[number], float(limit))
            threads.append(threading.Thread(target=serve, args=arguments, daemon=True))
            threads[-1].start()
        clients[number].put(request["sql"])
    if mode == "load":
        for requests in clients.values():
            requests.put(None)
        for thread in threads:
            thread.join()
        database.close()
    # Do not wait for threads in the middle of a query.
    os._exit(0)


main()
