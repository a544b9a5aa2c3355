import gc
import threading
import warnings
import weakref

import duckdb
import pyarrow as pa
import pytest

from xzsql.engine.mount import Tables, mount, unmount
from xzsql.errors import (
    AmbiguousTableError,
    ClosedError,
    InvalidInputError,
    NameTakenError,
    QueryError,
    UnknownNameError,
    XzsqlWarning,
)
from xzsql.source import COMMENT
from xzsql.testing.sources import FailingSource, MemorySource, SlowSource

NO_SELF = AmbiguousTableError.of_self(["a", "b"])


def source(*values, **more):
    field = pa.field("x", pa.int64(), metadata={COMMENT: b"positions, it's [m]"})
    return MemorySource(pa.table({"x": pa.array(values, pa.int64())}, pa.schema([field])), **more)


def tables(**schemas):
    return Tables({"main": {}} | {k.replace("__", "/"): v for k, v in schemas.items()}, NO_SELF)


ONE = tables(main={"t": source(1, 2, 3)}, simulation__fine={"t": source(4)})


def ask(con, sql):
    return con.execute(sql).fetchall()


def databases(con):
    return {row[0] for row in ask(con, "SHOW DATABASES")}


def test_root_and_groups_are_read_from_every_cursor(con):
    cursor = con.cursor()
    mount(con, "era5", ONE)
    for each in (con, cursor, con.cursor()):
        assert ask(each, "SELECT sum(x) FROM era5.t") == [(6,)]
        assert ask(each, 'SELECT x FROM era5."simulation/fine".t') == [(4,)]
        assert ask(each, "SELECT sum(x) FROM era5.main.t WHERE x > 1") == [(5,)]


def test_it_is_listed_with_its_comments(con):
    mount(con, "era5", ONE)
    assert ask(con, "SELECT database, schema, name FROM (SHOW ALL TABLES)") == [
        ("era5", "main", "t"),
        ("era5", "simulation/fine", "t"),
    ]
    sql = "SELECT table_schema, table_name, column_name, data_type FROM information_schema.columns"
    assert sorted(ask(con, sql + " WHERE table_catalog = 'era5'")) == [
        ("main", "t", "x", "BIGINT"),
        ("simulation/fine", "t", "x", "BIGINT"),
    ]
    comments = ask(con, "SELECT DISTINCT comment FROM duckdb_columns() WHERE database_name = 'era5'")
    assert comments == [("positions, it's [m]",)]


def test_a_mount_is_replaced_as_a_whole(con):
    mount(con, "era5", ONE)
    mount(con, "ERA5", tables(main={"other": source(9)}))
    assert ask(con, "SELECT database, schema, name FROM (SHOW ALL TABLES)") == [("era5", "main", "other")]
    assert ask(con, "SELECT schema_name FROM duckdb_schemas() WHERE database_name = 'era5' AND NOT internal") in (
        [],
        [("main",)],
    )
    assert ask(con, "FROM era5.other") == [(9,)]


def test_a_replacement_that_fails_changes_nothing(con):
    mount(con, "era5", ONE)

    class Broken(MemorySource):
        @property
        def schema(self):
            raise RuntimeError("no metadata")

    broken = object.__new__(Broken)
    with pytest.raises(RuntimeError):
        mount(con, "era5", tables(main={"a": source(1), "b": broken}))
    assert ask(con, "SELECT sum(x) FROM era5.t") == [(6,)]
    with pytest.raises(RuntimeError):
        mount(con, "new", tables(main={"a": source(1), "b": broken}))
    assert databases(con) == {"memory", "era5"}


def test_a_replaced_default_database_stays_default(con):
    mount(con, "era5", ONE)
    con.execute("USE era5")
    mount(con, "era5", tables(main={"t": source(7)}))
    assert ask(con, "FROM t") == [(7,)]


def test_what_the_user_made_in_a_mount_stays(con):
    mount(con, "era5", ONE)
    con.execute('CREATE TABLE era5."simulation/fine".mine AS SELECT 1 AS i')
    mount(con, "era5", tables(main={"t": source(7)}))
    assert ask(con, 'FROM era5."simulation/fine".mine') == [(1,)]
    con.execute("CREATE TABLE era5.u AS SELECT 1 AS i")
    with pytest.raises(NameTakenError, match="'u' cannot be a table of 'era5'"):
        mount(con, "era5", tables(main={"u": source(7)}))
    assert ask(con, "FROM era5.t") == [(7,)]


@pytest.mark.parametrize("name", ["a.b", "sp ace", 'q"q', "ünï \U0001f30d", "x" * 200, "select", "it's"])
def test_names(con, name):
    mount(con, name, Tables({"main": {name: source(1)}, name: {name: source(2)}}, NO_SELF))
    quoted = '"' + name.replace('"', '""') + '"'
    assert ask(con, f"FROM {quoted}.main.{quoted}") == [(1,)]
    assert ask(con, f"FROM {quoted}.{quoted}.{quoted}") == [(2,)]
    unmount(con, name)
    assert databases(con) == {"memory"}


@pytest.mark.parametrize("name", ["temp", "system", "main", "Memory", "TEMP", "pg_catalog", "information_schema"])
def test_reserved_names_are_refused(con, name):
    with pytest.raises(NameTakenError):
        mount(con, name, ONE)


def test_names_of_others_are_refused(con, tmp_path):
    con.execute("ATTACH ':memory:' AS other; CREATE SCHEMA mine")
    with pytest.raises(NameTakenError, match=r"'OTHER' is a database of this connection and no mount.*'other'"):
        mount(con, "OTHER", ONE)
    with pytest.raises(NameTakenError, match="'mine' is a schema of this connection"):
        mount(con, "Mine", ONE)
    with duckdb.connect(tmp_path / "file.duckdb") as file, pytest.raises(NameTakenError, match="'file' is a database"):
        mount(file, "file", ONE)
    assert databases(con) == {"memory", "other"}


@pytest.mark.parametrize("name", ["", None, 3])
def test_what_is_no_name(con, name):
    with pytest.raises(InvalidInputError, match="name of a mount"):
        mount(con, name, ONE)


def test_what_is_no_connection():
    with pytest.raises(InvalidInputError, match="a DuckDB connection is needed"):
        mount("my.duckdb", "era5", ONE)


def test_a_closed_connection(con):
    con.close()
    with pytest.raises(ClosedError, match="closed"):
        mount(con, "era5", ONE)
    with pytest.raises(ClosedError, match="closed"):
        unmount(con, "era5")


def test_unmount_takes_own_mounts_only(con):
    con.execute("ATTACH ':memory:' AS other")
    mount(con, "a", ONE)
    mount(con, "b", ONE)
    for name in ("other", "memory", "nope", ""):
        with pytest.raises(UnknownNameError, match="there is 'a', 'b'"):
            unmount(con, name)
    unmount(con.cursor(), "A")
    with pytest.raises(UnknownNameError):
        unmount(con, "a")
    assert databases(con) == {"memory", "other", "b"}


def test_unmount_of_the_default_database(con):
    mount(con, "era5", ONE)
    con.execute("USE era5")
    with pytest.raises(QueryError, match=r"default database of this connection.*USE memory"):
        unmount(con, "era5")
    con.execute("USE memory")
    unmount(con, "era5")


@pytest.mark.parametrize("how", ["unmount", "replace", "close"])
def test_sources_are_let_go(how):
    con = duckdb.connect()
    mine = source(1, 2)
    ref = weakref.ref(mine)
    mount(con, "era5", tables(main={"t": mine}))
    ask(con, "FROM era5.t")
    del mine
    gc.collect()
    assert ref() is not None
    match how:
        case "unmount":
            unmount(con, "era5")
        case "replace":
            mount(con, "era5", ONE)
        case "close":
            con.close()
    gc.collect()
    assert ref() is None


def test_a_scan_under_way_ends_as_it_would_have(con):
    gate = threading.Event()
    slow = SlowSource(pa.table({"x": range(1000)}), 100, gate=gate)
    mount(con, "era5", tables(main={"t": slow}))
    found = []
    cursor = con.cursor()
    thread = threading.Thread(target=lambda: found.append(ask(cursor, "SELECT count(*) FROM era5.t")))
    thread.start()
    while not slow.requests:
        pass
    unmount(con, "era5")
    gate.set()
    thread.join()
    assert found == [[(1000,)]]


def test_a_file_stays_clean(tmp_path):
    path = tmp_path / "my.duckdb"
    with duckdb.connect(path) as con:
        con.execute("CREATE TABLE mine AS SELECT 1 AS x")
        mount(con, "era5", ONE)
        assert ask(con, "SELECT count(*) FROM era5.t JOIN mine USING (x)") == [(1,)]
    with duckdb.connect(path) as con:
        assert ask(con, "SELECT database, schema, name FROM (SHOW ALL TABLES)") == [("my", "main", "mine")]
        assert ask(con, "SELECT count(*) FROM duckdb_functions() WHERE database_name = 'my'") == [(0,)]


def test_a_read_only_connection(tmp_path):
    path = tmp_path / "my.duckdb"
    duckdb.connect(path).close()
    with duckdb.connect(path, read_only=True) as con:
        mount(con, "era5", ONE)
        mount(con, "era5", ONE)
        assert ask(con, 'SELECT count(*) FROM era5."simulation/fine".t') == [(1,)]
        unmount(con, "era5")
        assert databases(con) == {"my"}


def test_an_open_result_goes_on(con):
    con.execute("SELECT * FROM range(100000)")
    assert con.fetchone() == (0,)
    mount(con, "era5", ONE)
    mount(con, "era5", ONE)
    unmount(con, "era5")
    assert con.fetchone() == (1,)
    assert len(con.fetchall()) == 99_998


class TestTransactions:
    def test_a_new_mount_is_seen_inside(self, con):
        con.execute("CREATE TABLE mine AS SELECT 1 AS i; BEGIN; INSERT INTO mine VALUES (2); FROM mine")
        mount(con, "era5", ONE)
        assert ask(con, "SELECT sum(x) FROM era5.t") == [(6,)]
        con.execute("ROLLBACK")
        assert ask(con, "SELECT sum(x) FROM era5.t") == [(6,)]
        assert ask(con, "FROM mine") == [(1,)]

    def test_a_replacement_is_seen_afterwards_and_that_is_said(self, con):
        mount(con, "era5", ONE)
        con.execute("BEGIN; FROM era5.t")
        with pytest.warns(XzsqlWarning, match="goes on with the old tables until it ends"):
            mount(con, "era5", tables(main={"t": source(7)}))
        assert ask(con, "SELECT sum(x) FROM era5.t") == [(6,)]
        con.execute("COMMIT")
        assert ask(con, "SELECT sum(x) FROM era5.t") == [(7,)]

    def test_a_transaction_that_failed_stays_failed(self, con):
        con.execute("CREATE TABLE mine (i INT PRIMARY KEY); BEGIN; INSERT INTO mine VALUES (1)")
        with pytest.raises(duckdb.Error):
            con.execute("INSERT INTO mine VALUES (1)")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", XzsqlWarning)
            mount(con, "era5", ONE)
        con.execute("ROLLBACK")
        assert ask(con, "SELECT sum(x) FROM era5.t") == [(6,)]


def test_in_prepared_statements_views_copies_and_tables(con, tmp_path):
    mount(con, "era5", ONE)
    con.execute("PREPARE p AS SELECT count(*) FROM era5.t WHERE x >= $1")
    assert [ask(con, "EXECUTE p(2)"), ask(con, "EXECUTE p(3)"), ask(con, "EXECUTE p(2)")] == [[(2,)], [(1,)], [(2,)]]
    con.execute("CREATE VIEW v AS FROM era5.t; CREATE TABLE copy AS FROM era5.t")
    assert ask(con, "SELECT (SELECT sum(x) FROM v), (SELECT sum(x) FROM copy)") == [(6, 6)]
    con.execute(f"COPY era5.t TO '{tmp_path / 't.parquet'}'")
    assert ask(con, f"SELECT sum(x) FROM '{tmp_path / 't.parquet'}'") == [(6,)]
    assert ask(con, "WITH a AS (FROM era5.t) SELECT count(*) FROM a JOIN era5.t b USING (x)") == [(3,)]


def test_the_text_of_an_error_says_it_all(con):
    error = ValueError("cannot decode chunk 3")
    mount(con, "era5", tables(main={"t": FailingSource(pa.table({"x": [1]}), after=0, error=error)}))
    with pytest.raises(duckdb.Error, match="ValueError: cannot decode chunk 3"):
        con.execute("FROM era5.t").fetchall()


def test_two_threads_mount_one_name(con):
    errors = []

    def work():
        try:
            for _ in range(10):
                mount(con, "era5", ONE)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert ask(con, "SELECT sum(x) FROM era5.t") == [(6,)]
