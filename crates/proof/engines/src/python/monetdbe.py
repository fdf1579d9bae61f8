# MonetDBe, MonetDB's embedded library, for child.py. The database is a directory.
#
# The library is used through its C interface (monetdbe.h of the release Jul2021). The package's own
# Python code needs modules of Python 3.10 and hides the engine behind conversions.

import ctypes
import datetime
import decimal
import errno
import importlib.metadata
import importlib.util
import math
import os

TITLE = "MonetDBe " + importlib.metadata.version("monetdbe")
# With less free space than this, a file system is full for MonetDB, which extends files by 64 KiB
# and more.
SMALLEST_WRITE = 1 << 20


class Options(ctypes.Structure):
    _fields_ = [
        ("memorylimit", ctypes.c_int),  # MiB
        ("querytimeout", ctypes.c_int),  # seconds
        ("sessiontimeout", ctypes.c_int),
        ("nr_threads", ctypes.c_int),
        ("remote", ctypes.c_void_p),
        ("mapi_server", ctypes.c_void_p),
        ("trace_file", ctypes.c_char_p),
    ]


class Result(ctypes.Structure):
    _fields_ = [
        ("nrows", ctypes.c_int64),
        ("ncols", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("last_id", ctypes.c_int64),
    ]


class Column(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
    ]


class Int128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_int64)]


class Date(ctypes.Structure):
    _fields_ = [("day", ctypes.c_uint8), ("month", ctypes.c_uint8), ("year", ctypes.c_int16)]


def integer(bits):
    missing = -(1 << (bits - 1))
    return lambda value: None if value == missing else value


def int128(value):
    return integer(128)((value.high << 64) + value.low)


def floating(value):
    return None if math.isnan(value) else value


def boolean(value):
    return None if value < 0 else value != 0


def string(value):
    return None if value is None else value.decode()


def date(value):
    return datetime.date(value.year, value.month, value.day) if value.month else None


# What an element of a column of each type is, and its value in Python; None for NULL.
TYPES = {
    0: (ctypes.c_int8, boolean),
    1: (ctypes.c_int8, integer(8)),
    2: (ctypes.c_int16, integer(16)),
    3: (ctypes.c_int32, integer(32)),
    4: (ctypes.c_int64, integer(64)),
    5: (Int128, int128),
    7: (ctypes.c_float, floating),
    8: (ctypes.c_double, floating),
    9: (ctypes.c_char_p, string),
    11: (Date, date),
}


def load():
    package = importlib.util.find_spec("monetdbe").submodule_search_locations[0]
    # The extension of Python is linked with the library and knows where it is.
    library = ctypes.CDLL(os.path.join(package, "_lowlevel.abi3.so"))
    handle, pointer = ctypes.c_void_p, ctypes.POINTER
    results = {
        "open": (ctypes.c_int, [pointer(handle), ctypes.c_char_p, pointer(Options)]),
        "close": (ctypes.c_int, [handle]),
        "error": (ctypes.c_char_p, [handle]),
        "query": (
            ctypes.c_char_p,
            [handle, ctypes.c_char_p, pointer(pointer(Result)), pointer(ctypes.c_int64)],
        ),
        "result_fetch": (
            ctypes.c_char_p,
            [pointer(Result), pointer(pointer(Column)), ctypes.c_size_t],
        ),
        "cleanup_result": (ctypes.c_char_p, [handle, pointer(Result)]),
    }
    for name, (result, arguments) in results.items():
        function = getattr(library, "monetdbe_" + name)
        function.restype, function.argtypes = result, arguments
    return library


library = load()


class Handle:
    """An open database; only for the thread that has opened it."""

    def __init__(self, path, options):
        self.path = path
        self.handle = ctypes.c_void_p()
        status = library.monetdbe_open(ctypes.byref(self.handle), os.fsencode(path), options)
        if status != 0:
            cause = library.monetdbe_error(self.handle) if self.handle else None
            self.check(cause or b"the library has status %d" % status)

    def check(self, message):
        """Raises an error if there is a message."""
        if message is None:
            return
        message = message.decode(errors="replace").strip()
        # MonetDB does not say so.
        disk = os.statvfs(self.path)
        if disk.f_bavail * disk.f_frsize < SMALLEST_WRITE:
            message += ": " + os.strerror(errno.ENOSPC)
        raise RuntimeError(message)

    def columns(self, sql):
        """The columns of an answer: the type of each and its elements."""
        result, rows = ctypes.POINTER(Result)(), ctypes.c_int64()
        sql = sql.encode()
        results = ctypes.byref(result), ctypes.byref(rows)
        self.check(library.monetdbe_query(self.handle, sql, *results))
        if not result:
            return []
        try:
            return [self.column(result, number) for number in range(result.contents.ncols)]
        finally:
            self.check(library.monetdbe_cleanup_result(self.handle, result))

    def column(self, result, number):
        column = ctypes.POINTER(Column)()
        self.check(library.monetdbe_result_fetch(result, ctypes.byref(column), number))
        column = column.contents
        if column.type not in TYPES:
            raise RuntimeError(f"a column has the unknown type {column.type}")
        element, value = TYPES[column.type]
        data = ctypes.cast(column.data, ctypes.POINTER(element))
        return [value(data[row]) for row in range(column.count)]

    def close(self):
        library.monetdbe_close(self.handle)


class Database:
    # There is no access for reading only; queries write nothing.
    def __init__(self, path, read_only, spill, threads, settings):
        numbers = {"threads": threads, "memorylimit": 0}
        for name, value in settings.items():
            if name not in numbers:
                raise RuntimeError(f"there is no setting {name}; there are threads and memorylimit")
            numbers[name] = int(value)
        self.path = path
        self.options = Options(memorylimit=numbers["memorylimit"], nr_threads=numbers["threads"])
        # The database is open as long as a handle is.
        self.handle = Handle(path, self.options)
        self.scales = {}

    def client(self):
        return Client(self)

    def close(self):
        self.handle.close()


SCALES = (
    "select c.type_scale from tmp._columns c, tmp._tables t "
    "where c.table_id = t.id and t.name = 'scales' order by c.number"
)


class Client:
    def __init__(self, database):
        self.database = database
        self.handle = None
        self.limit = None

    def rows(self, sql, limit):
        if self.handle is None:
            self.handle = Handle(self.database.path, self.database.options)
        if limit > 0 and limit != self.limit:
            # In whole seconds, and looked at between the steps of a query.
            self.handle.columns(f"call sys.setquerytimeout({math.ceil(limit)})")
            self.limit = limit
        columns = self.handle.columns(sql)
        if not columns:
            return []
        scales = self.scales(sql, len(columns))
        columns = [scaled(column, scale) for column, scale in zip(columns, scales)]
        return list(zip(*columns))

    def scales(self, sql, columns):
        """Digits behind the point of each column, which answers lack; once for each query."""
        if sql not in self.database.scales:
            names = ", ".join(f"c{number}" for number in range(columns))
            run = self.handle.columns
            run(f"create local temporary table scales ({names}) as {sql} with no data")
            self.database.scales[sql] = run(SCALES)[0]
            run("drop table scales")
        return self.database.scales[sql]

    def close(self):
        if self.handle is not None:
            self.handle.close()


def scaled(column, scale):
    if scale == 0 or not isinstance(next(filter(None, column), None), int):
        return column
    return [None if value is None else decimal.Decimal(value).scaleb(-scale) for value in column]
