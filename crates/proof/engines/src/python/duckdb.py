# DuckDB for child.py. The database is a single file.

import threading

import duckdb

TITLE = "DuckDB " + duckdb.__version__


class Database:
    def __init__(self, path, read_only, spill, threads, settings):
        config = {"temp_directory": spill, "threads": str(threads), **settings}
        self.connection = duckdb.connect(path, read_only=read_only, config=config)

    def client(self):
        return Client(self.connection.cursor())

    def close(self):
        self.connection.close()


class Client:
    def __init__(self, connection):
        self.connection = connection
        # Otherwise DuckDB prints a bar after two seconds, whether or not the output is a terminal.
        connection.execute("set enable_progress_bar = false")

    def rows(self, sql, limit):
        timer = threading.Timer(limit, self.connection.interrupt) if limit > 0 else None
        if timer:
            timer.start()
        try:
            return self.connection.execute(sql).fetchall()
        finally:
            if timer:
                timer.cancel()

    def close(self):
        self.connection.close()
