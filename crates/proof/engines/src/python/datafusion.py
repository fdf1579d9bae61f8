# DataFusion for child.py. The database is a directory with one Parquet file per table.

import asyncio
import pathlib

import datafusion

TITLE = "DataFusion " + datafusion.__version__


class Database:
    def __init__(self, path, read_only, spill, threads, settings):
        config = datafusion.SessionConfig().with_target_partitions(threads)
        for name, value in settings.items():
            config.set(name, value)
        runtime = datafusion.RuntimeEnvBuilder().with_disk_manager_os().with_temp_file_path(spill)
        self.context = datafusion.SessionContext(config, runtime)
        if read_only:
            for table in sorted(pathlib.Path(path).glob("*.parquet")):
                self.context.register_parquet(table.stem, table)

    def client(self):
        return Client(self.context)

    def close(self):
        pass


def to_list(column):
    return column.to_pylist()


class Client:
    def __init__(self, context):
        self.context = context
        self.loop = asyncio.new_event_loop()

    def rows(self, sql, limit):
        batches = self.loop.run_until_complete(asyncio.wait_for(self.batches(sql), limit or None))
        return [row for batch in batches for row in zip(*map(to_list, batch.columns))]

    async def batches(self, sql):
        stream = self.context.sql(sql).execute_stream()
        return [batch.to_pyarrow() async for batch in stream]

    def close(self):
        self.loop.close()
