import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr
from click.testing import CliRunner

import xzsql
from xzsql.cli import arguments, output, shell, text
from xzsql.result import Result

ENTRY = "from xzsql.cli import main; main()"
TEMPERATURES = "SELECT * FROM self ORDER BY ALL"
#: As many rows as a pipe and some batches do not hold.
ENDLESS = "SELECT range AS i, range * 0.5 AS x FROM range(1000000000)"


@pytest.fixture(scope="module")
def dataset():
    return xr.Dataset(
        {
            "t": (("time", "x"), np.array([[1.5, np.nan], [3.0, 1e20], [-0.25, 7.0]])),
            "n": (("time", "x"), np.array([[2**53 + 1, -1], [0, 5], [-(2**63), 2**63 - 1]])),
        },
        coords={
            "time": np.array(["2024-01-01", "2024-01-01T00:00:00.5", "1969-12-31"], "M8[ns]"),
            "x": ["a", 'with "quotes", and comma'],
        },
    )


@pytest.fixture(scope="module")
def store(dataset, tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "small.zarr"
    # consolidated metadata is in order of names
    dataset.to_zarr(path, consolidated=True, zarr_format=2)
    return str(path)


@pytest.fixture(scope="module")
def expected(dataset):
    frame = dataset.to_dataframe().reset_index()[["time", "x", "n", "t"]]
    return frame.sort_values(["time", "x"], ignore_index=True)


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    """Compiled once for all processes of this file."""
    there = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**there, "PYTHONPYCACHEPREFIX": str(tmp_path_factory.mktemp("compiled"))}


@pytest.fixture
def start(env):
    """`start(*args)` is a running `xzsql`."""
    running = []

    def run(*args, **more):
        more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        running.append(subprocess.Popen([sys.executable, "-c", ENTRY, *args], env=env, **more))
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.communicate()


def invoke(*args, stdin=None):
    return CliRunner().invoke(shell, [str(a) for a in args], input=stdin, prog_name="xzsql")


def ask(*args, code=0, **more):
    result = invoke("query", *args, **more)
    assert result.exit_code == code, result.output
    return result


def written(values, *, kind=None, format="csv", name="v"):
    """What a format makes of a column."""
    out = io.BytesIO()
    column = values if isinstance(values, pa.Array) else pa.array(values, kind)
    batch = pa.record_batch([column], [name])
    sink = output._sink(format, out, batch.schema, ["?"], None)
    sink.write(batch)
    sink.end()
    return out.getvalue().decode()


# What is asked, and of what


def test_tables_are_those_of_the_catalog(store):
    rows = [json.loads(line) for line in invoke("tables", store, "-f", "jsonl").stdout.splitlines()]
    with xzsql.open(store) as catalog:
        assert rows == catalog.tables().arrow().to_pylist()


def test_tables_for_people(store):
    lines = invoke("tables", store).stdout.splitlines()
    assert lines[0].split() == ["name", "rows", "dims", "shape", "columns", "blocks", "chunk_shape"]
    assert " ".join(lines[2].split()) == "time_x 6 time, x 3 x 2 time, x, n, t 1 3 x 2"
    assert lines[3:] == ["(1 row)"]


def test_groups_stay_visible_among_the_tables(tmp_path):
    tree = xr.DataTree.from_dict({"/": xr.Dataset({"a": ("x", [1])}), "/deep/er": xr.Dataset({"b": ("y", [1, 2])})})
    tree.to_netcdf(tmp_path / "tree.nc")
    lines = invoke("tables", tmp_path / "tree.nc").stdout.splitlines()
    assert lines[0].startswith("schema")
    assert lines[3].split()[:3] == ["deep/er", "y", "2"]


def test_what_is_left_out_is_a_warning_of_one_line(tmp_path):
    xr.Dataset({"a": ("x", [1])}).to_zarr(tmp_path / "c.zarr", zarr_format=2, consolidated=False)
    array = tmp_path / "c.zarr" / "odd"
    array.mkdir()
    meta = {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|V3", "compressor": None, "fill_value": None}
    (array / ".zarray").write_text(json.dumps({**meta, "order": "C", "filters": None}))
    (array / ".zattrs").write_text('{"_ARRAY_DIMENSIONS": ["x"]}')
    result = ask(tmp_path / "c.zarr", "SELECT a FROM x", "-f", "csv")
    assert result.stdout == "a\n1\n"
    (line,) = result.stderr.splitlines()
    assert line.startswith("xzsql: warning: variable 'odd' of group '/' is left out")


@pytest.mark.parametrize("way", ["argument", "file", "dash", "file dash"])
def test_sql_comes_from_an_argument_a_file_or_stdin(way, store, tmp_path):
    script = tmp_path / "count.sql"
    script.write_text("\ufeffSELECT count(*) AS rows\nFROM self", "utf-8")
    args, stdin = {
        "argument": (["SELECT count(*) AS rows FROM self"], None),
        "file": (["--file", script], None),
        "dash": (["-"], script.read_bytes()),
        "file dash": (["--file", "-"], script.read_bytes()),
    }[way]
    assert ask(store, *args, "-f", "csv", stdin=stdin).stdout == "rows\n6\n"


def test_statements_before_the_last_are_run(store):
    sql = "CREATE TABLE few AS SELECT n FROM self WHERE x = 'a'; SELECT count(*) AS c FROM few"
    assert ask(store, sql, "-f", "csv").stdout == "c\n3\n"


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("50", 50),
        ("0.5", 0.5),
        ("true", True),
        ("null", None),
        ("[1, 2]", [1, 2]),
        ('{"a": 1}', {"a": 1}),
        ('"50"', "50"),
        ('"a=b"', "a=b"),
        ("18446744073709551616", 2**64),
        ("2024-01-01", "2024-01-01"),
        ("NaN", "NaN"),
        ("", ""),
        ("007", "007"),
    ],
)
def test_parameters_are_json_or_text(given, value):
    assert arguments.params_of([given]) == [value]
    assert arguments.params_of([f"name={given}"]) == {"name": value}


def test_parameters_reach_the_query(store):
    sql = "SELECT n FROM self WHERE time >= $since AND x = $x AND n > $n ORDER BY n"
    args = ["-p", "since=2024-01-01", "-p", "x=a", "-p", "n=-5", "-f", "csv"]
    assert ask(store, sql, *args).stdout == f"n\n0\n{2**53 + 1}\n"
    assert ask(store, "SELECT ? || ? AS v", "-p", '"a=1"', "-p", "b", "-f", "csv").stdout == "v\na=1b\n"


def test_open_options(store, tmp_path):
    raw = ask(store, "SELECT typeof(time) AS v FROM self LIMIT 1", "-f", "csv", "--no-decode-times").stdout
    assert raw == "v\nBIGINT\n"
    assert ask(store, "SELECT count(t) AS c FROM self", "-f", "csv").stdout == "c\n5\n"
    # x is text and t carries a NaN sentinel of its own, so a variable without one shows what is kept
    xr.Dataset({"t": ("i", [1.0, np.nan], {}, {"_FillValue": None})}).to_netcdf(tmp_path / "nan.nc")
    for args, counted in ([], 1), (["--keep-nan"], 2), (["--engine", "h5netcdf", "--keep-nan"], 2):
        assert (
            ask(tmp_path / "nan.nc", "SELECT count(t) AS c FROM self", "-f", "csv", *args).stdout == f"c\n{counted}\n"
        )


def test_an_engine_takes_further_arguments(tmp_path):
    tree = xr.DataTree.from_dict({"/": xr.Dataset(), "/deep": xr.Dataset({"b": ("y", [1, 2])})})
    tree.to_netcdf(tmp_path / "tree.nc")
    args = ["--open-option", "group=/deep", "--engine", "h5netcdf", "-f", "csv"]
    assert ask(tmp_path / "tree.nc", "SELECT sum(b) AS s FROM self", *args).stdout == "s\n3\n"


def test_settings_hold_for_the_command_alone(store, monkeypatch):
    seen = []
    monkeypatch.setattr("xzsql.cli.write", lambda *_, **__: seen.append(xzsql.options.current()))
    before = xzsql.options.current()
    ask(store, "SELECT 1", "--memory-budget", "64MiB", "--workers", "2", "--no-progress")
    assert (seen[0].memory_budget, seen[0].workers, seen[0].progress) == (64 * 2**20, 2, False)
    assert xzsql.options.current() == before


def test_the_shells_own_variables_are_no_tables(store):
    for name in ("args", "ctx", "sql", "catalog", "text", "options"):
        said = ask(store, f"FROM {name}", code=1).stderr
        assert said.startswith(f"xzsql: no table '{name}'; there is 'time_x'.")
        assert "Python" not in said


def test_explain_is_that_of_the_catalog(store):
    sql = "SELECT avg(t) FROM self WHERE time >= $since"
    result = invoke("explain", store, sql, "-p", "since=2024-01-01")
    with xzsql.open(store) as catalog:
        assert result.stdout == f"{catalog.explain(sql, {'since': '2024-01-01'})}\n"
    assert "1 of 1 block" in result.stdout


def test_info_names_versions_and_what_to_install():
    rows = json.loads(invoke("info", "-f", "json").stdout)
    there = {(row["kind"], row["name"]): row for row in rows}
    for library in (xr, duckdb, np, pd, pa):
        assert there["core", library.__name__]["version"] == library.__version__
    assert there["adapter", "xarray"]["version"] == there["core", "xzsql"]["version"]
    assert {name for kind, name in there if kind == "engine"} == set(xr.backends.list_engines())
    optional = {row["name"]: row for row in rows if row["kind"] == "optional"}
    assert optional["rioxarray"]["note"] in ("extra geo", "pip install 'xzsql[geo]'")
    for row in optional.values():
        assert row["note"].startswith("pip install") == (row["version"] is None)


def test_demo():
    result = invoke("demo")
    assert result.exit_code == 0
    assert "latitude  celsius  rain" in result.stdout


# Formats


def test_csv_is_read_back_by_pandas_and_by_duckdb(store, expected, tmp_path):
    path = tmp_path / "o.csv"
    assert ask(store, TEMPERATURES, "-o", path).output == ""
    frame = pd.read_csv(path, parse_dates=["time"], date_format="ISO8601")
    pd.testing.assert_frame_equal(frame, expected, check_dtype=False)
    assert duckdb.sql(f"SELECT typeof(time), typeof(n), typeof(t) FROM '{path}' LIMIT 1").fetchall()[0] == (
        "TIMESTAMP",
        "BIGINT",
        "DOUBLE",
    )
    assert path.read_text().splitlines()[1] == f"1969-12-31T00:00:00,a,{-(2**63)},-0.25"


@pytest.mark.parametrize("format", ["json", "jsonl"])
def test_json_is_exact(format, store, expected):
    said = ask(store, TEMPERATURES, "-f", format).stdout
    rows = json.loads(said) if format == "json" else [json.loads(line) for line in said.splitlines()]
    assert [row["n"] for row in rows] == expected["n"].tolist()
    assert [row["time"] for row in rows] == [t.isoformat() for t in expected["time"].dt.to_pydatetime()]
    assert [row["x"] for row in rows] == expected["x"].tolist()
    assert [row["t"] for row in rows] == [None if np.isnan(t) else t for t in expected["t"]]


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "arrows", "feather"])
def test_binary_formats_hold_the_arrow_table(suffix, store, tmp_path):
    path = tmp_path / f"o.{suffix}"
    ask(store, TEMPERATURES, "-o", path)
    read = {"parquet": pq.read_table, "arrows": lambda p: pa.ipc.open_stream(p).read_all()}
    found = read.get(suffix, lambda p: pa.ipc.open_file(p).read_all())(path)
    with xzsql.open(store) as catalog:
        assert found.equals(catalog.query(TEMPERATURES).arrow())


@pytest.mark.parametrize("format", output.FORMATS)
def test_no_rows(format, store):
    said = ask(store, "SELECT x, n FROM self WHERE n = 77", "-f", format).stdout_bytes
    match format:
        case "csv":
            assert said == b"x,n\n"
        case "json":
            assert json.loads(said) == []
        case "jsonl":
            assert said == b""
        case "parquet":
            assert pq.read_table(io.BytesIO(said)).shape == (0, 2)
        case "arrow":
            assert pa.ipc.open_stream(said).read_all().shape == (0, 2)
        case "table":
            assert said.decode().splitlines()[-1] == "(0 rows)"


def test_csv_tells_null_from_an_empty_text(store):
    sql = "SELECT * FROM (VALUES (1, NULL), (2, ''), (3, ' a'), (4, 'a\"b'), (5, 'a\nb'), (6, 'é')) AS v(\"i,\", s)"
    said = ask(store, sql, "-f", "csv").stdout
    assert said == '"i,",s\n1,\n2,""\n3, a\n4,"a""b"\n5,"a\nb"\n6,é\n'
    assert list(csv.reader(io.StringIO(said)))[4:6] == [["4", 'a"b'], ["5", "a\nb"]]


def test_a_lonely_null_is_no_empty_line_in_csv(store):
    said = ask(store, "SELECT * FROM (VALUES (1), (NULL), (3)) AS v(a)", "-f", "csv").stdout
    assert said == 'a\n1\n""\n3\n'
    assert pd.read_csv(io.StringIO(said))["a"].isna().tolist() == [False, True, False]


def test_numbers_are_exact_in_json(store):
    sql = """SELECT 170141183460469231731687303715884105727::HUGEINT AS huge, -1.10::DECIMAL(5, 2) AS fixed,
        0.0000001::DECIMAL(38, 10) AS small, 0.1::FLOAT AS f, 0.1::DOUBLE AS d, -0.0::DOUBLE AS zero, 1e300 AS big,
        18446744073709551615::UBIGINT AS u, true AS yes, 3::DOUBLE AS whole"""
    said = ask(store, sql, "-f", "jsonl").stdout
    assert said == (
        '{"huge":170141183460469231731687303715884105727,"fixed":-1.10,"small":0.0000001000,"f":0.1,"d":0.1,"zero":-0.0,'
        '"big":1e+300,"u":18446744073709551615,"yes":true,"whole":3.0}\n'
    )
    assert json.loads(said, parse_float=Decimal)["fixed"] == Decimal("-1.10")


def test_floats_come_back_as_they_were():
    rng = np.random.default_rng(3)
    for kind in ("f4", "f8"):
        bits = rng.integers(0, 2 ** (8 * int(kind[1])), 20_000, dtype="u8").astype(f"u{kind[1]}")
        values = np.append(bits.view(kind), np.array([0, -0.0, 1, 1e16, 1e17, 123456789], kind))
        values = values[np.isfinite(values)]
        for texts in (text.plain(pa.array(values)), text.JsonText()(pa.array(values))):
            back = np.array([float(v) for v in texts.to_pylist()]).astype(kind)
            np.testing.assert_array_equal(back.view(f"u{kind[1]}"), values.view(f"u{kind[1]}"))
            assert all("." in v or "e" in v for v in texts.to_pylist())


def test_nan_is_null_in_strict_json_and_that_is_said(store):
    sql = "SELECT 'nan'::DOUBLE AS a, 1 AS b, [1.0, '-inf'::DOUBLE] AS c"
    result = ask(store, sql, "-f", "json")
    assert json.loads(result.stdout) == [{"a": None, "b": 1, "c": [1.0, None]}]
    assert result.stderr.count("\n") == 1
    assert "null in 'a', 'c'" in result.stderr
    assert ask(store, sql, "-f", "csv").stdout == 'a,b,c\nnan,1,"[1.0,-Infinity]"\n'


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("TIMESTAMP_NS '2024-01-01 00:00:00.000000001'", "2024-01-01T00:00:00.000000001"),
        ("TIMESTAMP_MS '2024-01-01 00:00:00.25'", "2024-01-01T00:00:00.250"),
        ("TIMESTAMPTZ '2024-01-01 00:00:00.5+02'", "2023-12-31T22:00:00.500000+00:00"),
        ("TIMESTAMPTZ '2024-01-01 00:00:00+02'", "2023-12-31T22:00:00+00:00"),
        ("DATE '2024-02-29'", "2024-02-29"),
        ("TIME '12:34:56'", "12:34:56"),
        ("TIME '12:34:56.789'", "12:34:56.789000"),
        ("'infinity'::TIMESTAMP", "infinity"),
        ("'-infinity'::DATE", "-infinity"),
        ("TIMESTAMP '123456-01-01'", "+123456-01-01T00:00:00"),
        ("TIMESTAMP '0044-03-15 (BC) 12:00:00'", "-0043-03-15T12:00:00"),
        ("DATE '12345-01-01'", "+12345-01-01"),
        ("'\\xFF\"'::BLOB", "\\xFF\\x22"),
        ("'01'::BIT", "01"),
        ("'a'::ENUM('a', 'b')", "a"),
        ("'b6f0f5a2-8b1e-4b39-9f0a-3d7c3d1a1f10'::UUID", "b6f0f5a2-8b1e-4b39-9f0a-3d7c3d1a1f10"),
        ("{'re': 1.0::DOUBLE, 'k': ['a\"b', NULL]}", {"re": 1.0, "k": ['a"b', None]}),
        ("[[1, 2], NULL, []]", [[1, 2], None, []]),
        ("[1, NULL]::INTEGER[2]", [1, None]),
        ("MAP {1: {'d': DATE '2024-01-01'}, 2: NULL}", {"1": {"d": "2024-01-01"}, "2": None}),
        ('\'{"a":\n [1, "x\\ny"]}\'::JSON', {"a": [1, "x\ny"]}),
        ("NULL", None),
    ],
)
def test_types_in_json(sql, value, store):
    (line,) = ask(store, f"SET TimeZone = 'UTC'; SELECT {sql} AS v", "-f", "jsonl").stdout.splitlines()
    assert json.loads(line) == {"v": value}
    (row,) = csv.DictReader(io.StringIO(ask(store, f"SET TimeZone = 'UTC'; SELECT {sql} AS v, 1", "-f", "csv").stdout))
    match value:
        case None:
            assert row["v"] == ""
        case str():
            assert row["v"] == value
        case _:
            assert json.loads(row["v"]) == value


def test_blobs_and_intervals_read_as_in_duckdb():
    con = duckdb.connect()
    blob = bytes(range(256))
    ((told,),) = con.execute("SELECT ?::BLOB::VARCHAR", [blob]).fetchall()
    assert text.plain(pa.array([blob])).to_pylist() == [told]
    rng = np.random.default_rng(1)
    parts = np.stack([rng.integers(-30, 30, 400), rng.integers(-40, 40, 400), rng.integers(-(10**12), 10**12, 400)], 1)
    parts[rng.random(parts.shape) < 0.3] = 0
    sql = "SELECT to_months(a) + to_days(b) + to_microseconds(c) AS i FROM parts"
    con.register("parts", pa.table({n: parts[:, k] for k, n in enumerate("abc")}))
    table = con.sql(sql).to_arrow_table()
    told = [r[0] for r in con.sql(f"SELECT i::VARCHAR FROM ({sql})").fetchall()]
    assert text.plain(table["i"].combine_chunks()).to_pylist() == told
    assert text.plain(table["i"].combine_chunks().slice(7, 5)).to_pylist() == told[7:12]


def test_nested_values_of_a_part_of_a_batch():
    values = [None, {"a": [1, 2], "m": [("k", 1.5)]}, {"a": None, "m": []}, {"a": [], "m": None}, None]
    kind = pa.struct({"a": pa.list_(pa.int64()), "m": pa.map_(pa.string(), pa.float64())})
    column = pa.array(values, kind)
    told = ["null", '{"a":[1,2],"m":{"k":1.5}}', '{"a":null,"m":{}}', '{"a":[],"m":null}', "null"]
    assert text.JsonText()(column).to_pylist() == told
    for start in range(5):
        for length in range(5 - start):
            assert text.JsonText()(column.slice(start, length)).to_pylist() == told[start : start + length]


def test_texts_need_no_luck_in_json():
    values = ["plain", '"', "\\", "\n\r\t\x00\x1f", "é日😀\u2028", "", None]
    assert [json.loads(v) for v in text.JsonText()(pa.array(values)).to_pylist()] == values
    lines = written(values, format="jsonl").split("\n")
    assert lines.pop() == ""
    assert [json.loads(line)["v"] for line in lines] == values


def test_values_that_repeat_are_converted_as_the_others(monkeypatch):
    rng = np.random.default_rng(0)
    n = 20_000
    columns = [
        pa.array(rng.integers(0, 5, n) * 0.5, mask=rng.random(n) < 0.1),
        pa.array(np.array(["", 'a"b', "c,d", None, "e"], object)[rng.integers(0, 5, n)], pa.string()),
        pa.array(rng.integers(0, 3, n) * 10**15, pa.timestamp("us")),
    ]
    for column in columns:
        by_value = text.csv_field(column), text.JsonText()(column)
        monkeypatch.setattr(text, "_SAMPLE", n)
        assert text.csv_field(column).equals(by_value[0])
        assert text.JsonText()(column).equals(by_value[1])
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("sql", "format", "said"),
    [
        ("SELECT 1 AS a, 2 AS a", "json", "json cannot hold two columns 'a'"),
        ("SELECT 1 AS a, 2 AS a", "parquet", "parquet cannot hold two columns 'a'"),
        ("SELECT 1 AS a, INTERVAL '1 day' AS d", "parquet", "cannot hold column 'd'"),
        ("SELECT union_value(k := 1) AS u", "csv", "column 'u' is a UNION"),
        ("SELECT 1::VARIANT AS u", "jsonl", "column 'u' is a VARIANT"),
        ("SELECT 1::BIGNUM AS u", "table", "column 'u' is a BIGNUM"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(sql, format, said, store, tmp_path):
    result = ask(store, sql, "-f", format, "-o", tmp_path / "o", code=1)
    assert said in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_csv_and_arrow_hold_columns_of_one_name(store):
    assert ask(store, "SELECT 1 AS a, 2 AS a", "-f", "csv").stdout == "a,a\n1,2\n"
    found = pa.ipc.open_stream(ask(store, "SELECT 1 AS a, 2 AS a", "-f", "arrow").stdout_bytes).read_all()
    assert found.column_names == ["a", "a"]


# Tables


def test_a_table_shows_values_and_types(store):
    lines = ask(store, TEMPERATURES).stdout.splitlines()
    assert lines[0].split() == ["time", "x", "n", "t"]
    assert lines[1].split() == ["TIMESTAMP", "VARCHAR", "BIGINT", "DOUBLE"]
    assert set(lines[2]) == {"─"}
    assert lines[3].split() == ["1969-12-31T00:00:00", "a", str(-(2**63)), "-0.25"]
    assert lines[6].split()[-2:] == ["-1", "NULL"]
    assert lines[9:] == ["(6 rows)"]


def test_a_table_stops_and_says_so(store):
    result = ask(store, ENDLESS)
    assert result.stdout.splitlines()[-1] == "(50 rows)"
    assert result.stderr.startswith("xzsql: stopped after 50 rows; --limit N for more")
    assert ask(store, "FROM range(50)").stderr == ""


def test_nothing_in_a_table_steers_the_terminal(store):
    lines = ask(store, "SELECT chr(27) || '[31mred' || chr(10) || chr(8238) || '[bold]' AS v").stdout.splitlines()
    assert lines[3] == "\\x1b[31mred\\n\\x202e[bold]"


def test_a_table_on_a_narrow_terminal(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "dumb")
    names = pa.array(["one two three four five six seven", "b"])
    table = pa.table({"name": names, "n": pa.array([1, 22], pa.int8()), "left": ["x" * 30, "y"], "more": [1, 2]})
    said = output.printed(table, ["", "", "", ""], encoding="utf-8", to_terminal=True)
    assert max(map(len, said.splitlines())) <= 40
    names = [word for line in said.splitlines()[2:-1] for word in line[:16].split()]
    assert names == ["one", "two", "three", "four", "five", "six", "seven", "b"]
    assert said.count("x") - said.count("six") == 30
    assert "too narrow for 'more'" in capsys.readouterr().err


# Limits, files, errors


@pytest.mark.parametrize(("limit", "rows", "told"), [(0, 0, True), (2, 2, True), (6, 6, False), (7, 6, False)])
def test_limit(limit, rows, told, store, expected):
    result = ask(store, TEMPERATURES, "-f", "jsonl", "--limit", limit)
    found = [json.loads(line)["n"] for line in result.stdout.splitlines()]
    assert found == expected["n"].tolist()[:rows]
    assert result.stderr == (f"xzsql: stopped after {limit} rows; there are more\n" if told else "")


def test_a_limit_within_a_later_batch():
    batches = [pa.record_batch({"a": list(range(k, k + 3))}) for k in range(0, 9, 3)]
    assert written([1, 2], format="json") == '[\n{"v":1},\n{"v":2}\n]\n'
    for limit in range(11):
        seen = []
        sink = type("Sink", (), {"write": lambda _, b, seen=seen: seen.extend(b.column(0).to_pylist())})()
        cut = output._copied(pa.RecordBatchReader.from_batches(batches[0].schema, batches), sink, limit)
        assert (seen, cut) == (list(range(min(limit, 9))), limit < 9)


def test_json_of_several_batches_is_one_array():
    out = io.BytesIO()
    table = pa.table({"a": pa.chunked_array([[1], [], [2, 3]], pa.int64())})
    sink = output._sink("json", out, table.schema, ["BIGINT"], None)
    for batch in table.to_batches():
        sink.write(batch)
    sink.end()
    assert json.loads(out.getvalue()) == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_a_file_is_replaced_when_all_is_written_and_not_before(store, tmp_path):
    path = tmp_path / "o.csv"
    path.write_text("old")
    path.chmod(0o640)
    ask(
        store,
        "SELECT CASE WHEN range > 300000 THEN error('late') ELSE range END FROM range(400000)",
        "-o",
        path,
        code=1,
    )
    assert path.read_text() == "old"
    (tmp_path / "link.csv").symlink_to(path)
    ask(store, "SELECT 1 AS a", "-o", tmp_path / "link.csv")
    assert path.read_text() == "a\n1\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.csv", "o.csv"]


@pytest.mark.parametrize("format", ["json", "parquet", "arrow"])
def test_what_broke_off_does_not_read_as_whole(format, store):
    sql = "SELECT CASE WHEN range > 300000 THEN error('late') ELSE range END AS v FROM range(400000)"
    result = ask(store, sql, "-f", format, code=1)
    assert result.stderr == "xzsql: Invalid Input Error: late\n"
    assert len(result.stdout_bytes) > 1000 or format == "parquet"
    read = {
        "json": json.loads,
        "parquet": lambda b: pq.read_table(io.BytesIO(b)),
        "arrow": lambda b: pa.ipc.open_stream(b).read_all(),
    }
    with pytest.raises((ValueError, OSError)):
        read[format](result.stdout_bytes)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nowhere.zarr", "SELECT 1"], "no file or folder 'nowhere.zarr'"),
        (["{store}", "SELECT * FORM self"], 'syntax error at or near "self" LINE 1: SELECT * FORM self'),
        (["{store}", "SELECT tt FROM self"], "no column 'tt' in self"),
        (["{store}", "SELECT n FROM t"], "no table 't'; there is 'time_x'."),
        (["{store}", "SELECT ?"], "parameter"),
        (["{store}", "SELECT 1", "-o", "no/such/folder/o.csv"], "no/such/folder"),
        (["{store}", "SELECT 1", "--engine", "nonsense"], "nonsense"),
    ],
)
def test_failures_are_one_line_and_exit_code_1(args, said, store):
    result = ask(*(a.format(store=store) for a in args), code=1)
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("xzsql: ")
    assert said in line


@pytest.mark.parametrize(
    "args",
    [
        ["nonsense"],
        ["query"],
        ["query", "{store}"],
        ["query", "{store}", "SELECT 1", "--nonsense"],
        ["query", "{store}", "SELECT 1", "--file", "x.sql"],
        ["query", "{store}", "--file", "no-such.sql"],
        ["query", "{store}", "SELECT 1", "-f", "xlsx"],
        ["query", "{store}", "SELECT 1", "-o", "out.xlsx"],
        ["query", "{store}", "SELECT 1", "--limit", "-1"],
        ["query", "{store}", "SELECT 1", "--limit", "many"],
        ["query", "{store}", "SELECT 1", "--memory-budget", "lots"],
        ["query", "{store}", "SELECT 1", "--workers", "0"],
        ["query", "{store}", "SELECT 1", "--open-option", "group"],
        ["query", "{store}", "SELECT ?, $a", "-p", "1", "-p", "a=1"],
    ],
)
def test_a_wrong_command_line_is_exit_code_2(args, store):
    result = invoke(*(a.format(store=store) for a in args))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("Error: ")


def test_the_target_is_not_overwritten(tmp_path):
    path = tmp_path / "a.nc"
    xr.Dataset({"a": ("x", [1])}).to_netcdf(path)
    before = path.read_bytes()
    assert "is the target itself" in ask(path, "SELECT 1", "-f", "csv", "-o", path, code=2).stderr
    assert path.read_bytes() == before


@pytest.mark.parametrize("where", ["before", "after"])
def test_debug_shows_the_traceback(where, store):
    args = ["query", store, "SELECT n FROM t"]
    result = invoke(*(["--debug", *args] if where == "before" else [*args, "--debug"]))
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert "UnknownNameError: no table 't'" in result.stderr


def test_a_result_that_was_made_of_a_table(tmp_path):
    output.write(Result.of_table(pa.table({"a": [1, 2]})), format="csv", path=str(tmp_path / "o.csv"), limit=None)
    assert (tmp_path / "o.csv").read_text() == "a\n1\n2\n"


def test_help_and_version():
    assert set(shell.commands) == {"tables", "query", "explain", "info", "demo"}
    for args in (["--help"], *([name, "--help"] for name in shell.commands)):
        result = invoke(*args)
        assert (result.exit_code, result.stdout.split()[0]) == (0, "Usage:")
    versions = {row["name"]: row["version"] for row in json.loads(invoke("info", "-f", "json").stdout)}
    assert invoke("--version").stdout == f"xzsql {versions['xzsql']}\n"


# As a process


def test_a_process_reads_stdin_and_writes_a_pipe(start, store, expected):
    process = start("query", store, "-", "-f", "parquet", stdin=subprocess.PIPE)
    out, err = process.communicate(TEMPERATURES.encode())
    assert (process.returncode, err) == (0, b"")
    assert pq.read_table(io.BytesIO(out))["n"].to_pylist() == expected["n"].tolist()


def test_exit_codes_of_a_process(start, store):
    failed = start("query", store, "SELECT n FROM t")
    wrong = start("querry", store)
    assert failed.communicate() == (b"", b"xzsql: no table 't'; there is 'time_x'.\n")
    assert failed.returncode == 1
    assert b"No such command 'querry'" in wrong.communicate()[1]
    assert wrong.returncode == 2


@pytest.mark.parametrize("format", ["csv", "arrow"])
def test_a_pipe_that_is_closed_ends_it_quietly(format, start, store):
    process = start("query", store, ENDLESS, "-f", format)
    assert len(process.stdout.read(100)) == 100
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == 141


def test_ctrl_c_is_exit_code_130(start, store):
    process = start("query", store, ENDLESS, "-f", "csv")
    assert process.stdout.readline() == b"i,x\n"
    process.send_signal(signal.SIGINT)
    pressed = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"xzsql: interrupted\n")
    assert time.monotonic() - pressed < 20


def test_a_full_disk_is_said(start, store):
    if not os.path.exists("/dev/full"):
        pytest.skip("/dev/full is of Linux")
    process = start("query", store, "FROM range(100000)", "-f", "csv", "-o", "/dev/full")
    assert process.communicate()[1] == b"xzsql: cannot write: No space left on device\n"
    assert process.returncode == 1


@pytest.mark.soak
@pytest.mark.parametrize("format", ["csv", "json", "parquet", "arrow"])
def test_a_large_result_passes_in_bounded_memory(format, start, store):
    def most(rows):
        sql = f"SELECT range AS i, hash(range) AS h, TIMESTAMP '2024-01-01' + to_seconds(range) AS t FROM range({rows})"
        process = start("query", store, sql, "-f", format, "-o", os.devnull)
        watched, peak = psutil.Process(process.pid), 0
        while process.poll() is None:
            peak = max(peak, watched.memory_info().rss)
            time.sleep(0.05)
        assert (process.returncode, process.stderr.read()) == (0, b"")
        return peak

    # what is kept for a second reading, some batches and their texts, and nothing that grows
    assert most(50_000_000) < most(5_000_000) + 200 * 2**20
