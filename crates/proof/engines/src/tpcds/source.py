# TPC-DS for numapilot, from DuckDB's extension tpcds.
#
#   source.py describe                 tables and queries, as JSON
#   source.py generate DATABASE SF     makes all rows
#   source.py rows DATABASE TABLE      writes a table as CSV without a header

import json
import pathlib
import sys

import duckdb


def connect(path=":memory:", read_only=False):
    connection = duckdb.connect(path, read_only=read_only)
    # Otherwise DuckDB prints a bar among the rows after two seconds.
    connection.execute("set enable_progress_bar = false")
    try:
        import duckdb_extension_tpcds

        folder = pathlib.Path(duckdb_extension_tpcds.__file__).parent / "extensions"
        (version,) = connection.execute("select version()").fetchone()
        name = folder / version / "tpcds.duckdb_extension"
    except ImportError:
        # The file that "INSTALL tpcds" installs.
        name = "tpcds"
    connection.load_extension(str(name))
    return connection


def describe():
    connection = connect()
    connection.execute("call dsdgen(sf = 0, keys = true)")
    keys = connection.execute(
        "select table_name, array_to_string(constraint_column_names, ', ')"
        " from duckdb_constraints() where constraint_type = 'PRIMARY KEY'"
    )
    keys = dict(keys.fetchall())
    columns = connection.execute(
        "select table_name, string_agg(column_name || ' ' || data_type, ', ' order by column_index)"
        " from duckdb_columns() where not internal group by all order by all"
    )
    tables = [
        {"name": name, "columns": columns, "key": keys[name]} for name, columns in columns.fetchall()
    ]
    queries = connection.execute("select query from tpcds_queries() order by query_nr")
    json.dump({"tables": tables, "queries": [sql for (sql,) in queries.fetchall()]}, sys.stdout)


def generate(path, scale):
    connection = connect(path)
    connection.execute(f"call dsdgen(sf = {float(scale)})")
    connection.close()


def rows(path, table):
    connection = connect(path, read_only=True)
    connection.execute(f"copy {table} to '/dev/stdout' (format csv, header false)")


{"describe": describe, "generate": generate, "rows": rows}[sys.argv[1]](*sys.argv[2:])
