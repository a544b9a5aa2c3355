import duckdb
import pytest

from xzsql.engine import names
from xzsql.errors import InvalidInputError, NameTakenError

STRANGE = ["a", "A b", 'q"u"o', "dot.ted", "ünï", "select", "x" * 200, "'", ";--", "İ", "ß", "tab\t", "\U0001f30d"]


@pytest.mark.parametrize("name", STRANGE)
def test_quoted_names_come_back_from_duckdb(name, con):
    con.execute(f"CREATE TABLE {names.quoted(name)} (i INT)")
    assert con.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [(name,)]
    assert con.execute(f"SELECT {names.text(name)}").fetchall() == [(name,)]


def test_folding_is_duckdbs(con):
    """Two names are one to us exactly where DuckDB says that the table is there already."""
    candidates = ["Abc", "abc", "ABC", "É", "é", "İ", "i", "I", "ß", "SS", "K", "k", "\u212a"]
    for left in candidates:
        for right in candidates:
            con.execute(f"CREATE TABLE {names.quoted(left)} (i INT)")
            try:
                con.execute(f"CREATE TABLE {names.quoted(right)} (i INT)")
                con.execute(f"DROP TABLE {names.quoted(right)}")
                same = False
            except duckdb.CatalogException:
                same = True
            con.execute(f"DROP TABLE IF EXISTS {names.quoted(left)}")
            assert (names.folded(left) == names.folded(right)) is same, (left, right)


@pytest.mark.parametrize("name", ["main", "Temp", "SYSTEM", "memory", "information_schema", "pg_catalog"])
def test_reserved_mount_names(name):
    with pytest.raises(NameTakenError, match="DuckDB keeps that name"):
        names.check_mount_name(name)


@pytest.mark.parametrize("name", ["", "a\0b", None, 3])
def test_no_mount_names(name):
    with pytest.raises(InvalidInputError, match="name of a mount must be a text"):
        names.check_mount_name(name)


def test_find_and_display():
    assert names.find("ERA5", ["x", "era5"]) == "era5"
    assert names.find("y", ["x"]) is None
    assert [names.display("main", "t"), names.display("a/b", "t")] == ["t", "a/b.t"]
