"""Names of tables, columns, schemas and mounts: what each rule gives, and that anything can be a name."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import xzsql

LONG = "n" * 200
ODD = [
    "select", "from", "table", "group", "order", "user", "a b", " a", "a ", 'a"b', "a'b", "a.b", "a;b", "a--b", "%",
    "日本語", "été", "straße", "🌍", "_", "0", "1a", "a\nb", "a\\b", "$1", "?", LONG,
]  # fmt: skip


def q(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def listed(catalog: xzsql.Catalog) -> pd.DataFrame:
    frame = catalog.tables().df()
    frame["dims"] = [None if d is None else tuple(d) for d in frame["dims"]]
    frame["columns"] = [None if c is None else list(c) for c in frame["columns"]]
    return frame


def names_of(target: xr.Dataset | xr.DataTree) -> set[tuple[str, str]]:
    frame = listed(target.sql)
    return {(s, n) for s, n in zip(frame["schema"], frame["name"], strict=True) if isinstance(n, str)}


@pytest.mark.parametrize("name", ODD)
def test_any_name_of_a_variable(con, name):
    ds = xr.Dataset({name: ("x", [1, 2]), "other": ("x", [3, 4])}, coords={"x": [10, 20]})
    expected = [(10, 1), (20, 2)]
    assert ds.sql.query(f"SELECT x, {q(name)} FROM self ORDER BY 1").fetchall() == expected
    assert list(ds.sql.query("SELECT * FROM self").columns) == ["x", name, "other"]
    ds.sql.mount(con, "m")
    assert con.sql(f"SELECT x, {q(name)} FROM m.x WHERE {q(name)} > 0 ORDER BY 1").fetchall() == expected


@pytest.mark.parametrize("name", ODD)
def test_any_name_of_a_dimension(con, name):
    ds = xr.Dataset({"v": ((name, "y"), [[1, 2], [3, 4]])}, coords={name: [0.5, 1.5]})
    sql = f"SELECT v FROM {{}} WHERE {q(name)} = 1.5 ORDER BY v"
    assert ds.sql.query(sql.format("self")).fetchall() == [(3,), (4,)]
    assert ds.sql.query(sql.format(q(f"{name}_y"))).fetchall() == [(3,), (4,)]
    ds.sql.mount(con, "m")
    assert con.sql(sql.format(f"m.{q(f'{name}_y')}")).fetchall() == [(3,), (4,)]


@pytest.mark.parametrize("name", [n for n in ODD if n != "."])
def test_any_name_of_a_group(con, name):
    tree = xr.DataTree.from_dict({"/": xr.Dataset({"r": ("z", [0])}), f"/{name}": xr.Dataset({"v": ("x", [1, 2])})})
    assert tree.sql.query(f"SELECT sum(v) FROM {q(name)}.x").fetchall() == [(3,)]
    tree.sql.mount(con, "m")
    assert con.sql(f"SELECT sum(v) FROM m.{q(name)}.x").fetchall() == [(3,)]


@pytest.mark.parametrize("name", ODD)
def test_any_name_of_a_mount(con, name):
    ds = xr.Dataset({"v": ("x", [1, 2])})
    ds.sql.mount(con, name)
    assert con.cursor().sql(f"SELECT sum(v) FROM {q(name)}.x").fetchall() == [(3,)]
    ds.sql.mount(con, name)
    ds.sql.unmount(con, name)
    assert con.sql("SELECT count(*) FROM duckdb_databases() WHERE NOT internal").fetchall() == [(1,)]


@pytest.mark.parametrize("name", ODD)
def test_any_name_given_by_table_names(con, name):
    ds = xr.Dataset({"v": (("y", "x"), [[1, 2]])})
    ds.sql.mount(con, "m", table_names={name: ("y", "x")})
    assert con.sql(f"SELECT sum(v) FROM m.{q(name)}").fetchall() == [(3,)]


# Rows, columns, names


def test_columns_are_dimensions_then_coordinates_then_data():
    ds = xr.Dataset(
        {"b": (("t", "y"), np.zeros((2, 3))), "a": (("t", "y"), np.ones((2, 3)))},
        coords={"h": 5, "lat": (("t", "y"), np.zeros((2, 3))), "y": [1, 2, 3], "s": ("t", ["p", "q"])},
    )
    assert list(ds.sql.query("FROM self").columns) == ["t", "y", "h", "lat", "s", "b", "a"]


def test_an_unfiltered_stream_is_row_major_in_each_block():
    ds = xr.Dataset({"v": (("t", "y"), np.arange(12).reshape(3, 4))})
    assert ds.sql.table("t_y").to_table()["v"].to_pylist() == list(range(12))
    assert [v for (v,) in ds.sql.query("SELECT v FROM self").fetchall()] == list(range(12))


def test_the_order_of_dimensions_tells_tables_apart():
    ds = xr.Dataset({"a": (("t", "y"), np.zeros((2, 3))), "b": (("y", "t"), np.zeros((3, 2)))})
    assert names_of(ds) == {("main", "t_y"), ("main", "y_t")}
    assert list(ds.sql.query("FROM y_t").columns) == ["y", "t", "b"]


@pytest.mark.parametrize(
    "table_names",
    [{"surface": ("t", "y")}, {("t", "y"): "surface"}, {"t_y": "surface"}],
)
def test_table_names_rename_in_each_group(con, table_names):
    ds = xr.Dataset({"v": (("t", "y"), [[1, 2]])})
    tree = xr.DataTree.from_dict({"/": ds, "/sub": ds.rename(v="w")})
    tree.sql.mount(con, "m", table_names=table_names)
    assert con.sql("SELECT sum(v) FROM m.surface").fetchall() == [(3,)]
    if "t_y" not in table_names:
        assert con.sql("SELECT sum(w) FROM m.sub.surface").fetchall() == [(3,)]


def test_table_names_of_one_group(con):
    ds = xr.Dataset({"v": (("t", "y"), [[1, 2]])})
    tree = xr.DataTree.from_dict({"/": ds, "/sub/fine": ds.rename(v="w")})
    tree.sql.mount(con, "m", table_names={"sub/fine/t_y": "surface"})
    assert con.sql('SELECT sum(w) FROM m."sub/fine".surface').fetchall() == [(3,)]
    assert con.sql("SELECT sum(v) FROM m.t_y").fetchall() == [(3,)]


def test_tables_that_differ_in_case_get_no_name():
    ds = xr.Dataset({"a": ("x", [1, 2]), "b": ("X", [3, 4, 5]), "c": ("y", [6])})
    assert names_of(ds) == {("main", "y")}
    frame = listed(ds.sql)
    unnamed = frame[frame["name"].isna()]
    assert sorted(unnamed["dims"]) == [("X",), ("x",)]
    assert all(isinstance(n, str) and n for n in unnamed["note"])
    assert ds.sql.table(dims=["X"]).to_table()["b"].to_pylist() == [3, 4, 5]
    assert ds.sql.table(dims=["x"]).to_table()["a"].to_pylist() == [1, 2]


def test_columns_that_differ_in_case_are_numbered_with_a_warning():
    ds = xr.Dataset({"Temp": ("x", [1, 2]), "temp": ("x", [3, 4])})
    with pytest.warns(xzsql.XzsqlWarning) as caught:
        found = ds.sql.query("SELECT Temp, temp_1 FROM self ORDER BY x").fetchall()
    assert found == [(1, 3), (2, 4)]
    assert len(caught) == 1
    assert "Temp" in str(caught[0].message)
    assert "temp_1" in str(caught[0].message)
    assert caught[0].filename == __file__


def test_dimensions_that_join_to_one_name_leave_none_with_it():
    ds = xr.Dataset({"p": (("a", "b"), [[1, 2]]), "q": ("a_b", [3, 4]), "r": ("c", [5])})
    assert names_of(ds) == {("main", "c")}
    frame = listed(ds.sql)
    assert sorted(frame[frame["name"].isna()]["dims"]) == [("a", "b"), ("a_b",)]
    assert ds.sql.table(dims=("a", "b")).to_table()["p"].to_pylist() == [1, 2]
    assert ds.sql.table(dims=("a_b",)).to_table()["q"].to_pylist() == [3, 4]


@pytest.mark.parametrize("dim", ["self", "SELF", "scalar"])
def test_a_table_that_would_be_self_or_scalar_has_no_plain_name(dim):
    ds = xr.Dataset({"p": (dim, [1, 2]), "q": ("x", [3]), "zero": 7})
    frame = listed(ds.sql)
    row = frame[[d == (dim,) for d in frame["dims"]]].iloc[0]
    assert not isinstance(row["name"], str)
    assert isinstance(row["note"], str)
    assert ds.sql.table(dims=(dim,)).to_table()["p"].to_pylist() == [1, 2]
    assert ("main", "x") in names_of(ds)


def test_a_renamed_table_can_be_read_where_its_name_collided(con):
    ds = xr.Dataset({"p": (("a", "b"), [[1, 2]]), "q": ("a_b", [3, 4])})
    ds.sql.mount(con, "m", table_names={"pairs": ("a", "b"), "single": ("a_b",)})
    assert con.sql("SELECT sum(p) FROM m.pairs").fetchall() == [(3,)]
    assert con.sql("SELECT sum(q) FROM m.single").fetchall() == [(7,)]


def test_groups_that_differ_in_case_have_no_plain_name():
    leaf = xr.Dataset({"v": ("x", [1, 2])})
    tree = xr.DataTree.from_dict({"/A": leaf, "/a": leaf * 2, "/b": leaf * 3})
    assert names_of(tree) == {("b", "x")}
    frame = listed(tree.sql)
    assert frame["note"].notna().sum() == 2
    assert tree.sql.table(group="/A").to_table()["v"].to_pylist() == [1, 2]
    assert tree.sql.table(dims=["x"], group="a").to_table()["v"].to_pylist() == [2, 4]


@pytest.mark.parametrize("group", ["main", "MAIN", "information_schema", "pg_catalog"])
def test_a_group_called_like_a_schema_that_is_kept(con, group):
    tree = xr.DataTree.from_dict({"/": xr.Dataset({"r": ("z", [5])}), f"/{group}": xr.Dataset({"v": ("x", [1, 2])})})
    assert names_of(tree) == {("main", "z")}
    assert tree.sql.query("SELECT r FROM main.z").fetchall() == [(5,)]
    assert tree.sql.table(dims=["x"], group=group).to_table()["v"].to_pylist() == [1, 2]
    tree.sql.mount(con, "m")
    assert con.sql("SELECT r FROM m.main.z").fetchall() == [(5,)]


def test_a_2_d_coordinate_named_like_one_of_its_dimensions(con):
    ds = xr.Dataset({"v": (("y", "x"), [[1, 2], [3, 4]])})
    ds = ds.assign_coords(xr.Coordinates({"x": xr.Variable(("y", "x"), [[0.5, 1.5], [2.5, 3.5]])}, indexes={}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xzsql.XzsqlWarning)
        found = ds.sql.query("SELECT * FROM self ORDER BY v")
        assert list(found.columns) == ["y", "x", "x_1", "v"]
        assert found.fetchall() == [(0, 0, 0.5, 1), (0, 1, 1.5, 2), (1, 0, 2.5, 3), (1, 1, 3.5, 4)]


def test_self_is_the_one_table_over_dimensions():
    ds = xr.Dataset({"v": ("x", [1, 2]), "zero": 7})
    assert ds.sql.query("SELECT sum(v) FROM self").fetchall() == [(3,)]
    assert ds.sql.query("SELECT zero FROM scalar").fetchall() == [(7,)]
    tree = xr.DataTree.from_dict({"/": ds, "/sub": xr.Dataset({"w": ("z", [1])})})
    assert tree.sql.query("SELECT sum(v) FROM self").fetchall() == [(3,)]


def test_auxiliary_coordinates_are_columns_of_each_table_that_holds_their_dimensions():
    ds = xr.Dataset(
        {"a": (("t", "y", "x"), np.zeros((1, 2, 2))), "b": (("y", "x"), np.zeros((2, 2))), "c": ("t", [0.0])},
        coords={"lat": (("y", "x"), [[1.0, 2.0], [3.0, 4.0]]), "height": 2.0},
    )
    frame = listed(ds.sql).set_index("name")
    assert frame.loc["t_y_x", "columns"] == ["t", "y", "x", "lat", "height", "a"]
    assert frame.loc["y_x", "columns"] == ["y", "x", "lat", "height", "b"]
    assert frame.loc["t", "columns"] == ["t", "height", "c"]
    assert set(frame.index) == {"t_y_x", "y_x", "t"}


def test_a_coordinate_that_no_table_takes_gets_its_own():
    ds = xr.Dataset({"v": ("t", [1])}, coords={"lat": (("y", "x"), [[1.0, 2.0]])})
    assert ds.sql.query("SELECT y, x, lat FROM y_x ORDER BY x").fetchall() == [(0, 0, 1.0), (0, 1, 2.0)]


def test_an_unnamed_array_is_value():
    array = xr.DataArray([[1, 2]], dims=("y", "x"))
    assert list(array.sql.query("FROM self").columns) == ["y", "x", "value"]
    assert list(array.rename("air").sql.query("FROM self").columns) == ["y", "x", "air"]


def test_bounds_and_grid_mappings_are_in_no_table():
    ds = xr.Dataset(
        {
            "air": (("t", "y"), np.zeros((2, 3)), {"grid_mapping": "crs"}),
            "crs": ((), 0, {"grid_mapping_name": "rotated_latitude_longitude"}),
            "t_edges": (("t", "two"), np.zeros((2, 2))),
            "y_bnds": (("y", "bnds"), np.zeros((3, 2))),
        },
        coords={"t": ("t", [0, 1], {"bounds": "t_edges"})},
    )
    assert names_of(ds) == {("main", "t_y")}
    assert list(ds.sql.query("FROM self").columns) == ["t", "y", "air"]


def test_levels_of_a_multiindex_are_columns_in_place_of_the_dimension():
    index = pd.MultiIndex.from_product([[2000, 2001], ["a", "b"]], names=["year", "site"])
    ds = xr.Dataset(
        {"v": (("y", "point"), np.arange(8).reshape(2, 4))},
        coords=xr.Coordinates.from_pandas_multiindex(index, "point"),
    )
    found = ds.sql.query("SELECT * FROM self WHERE year = 2001 AND site = 'b' ORDER BY y")
    assert list(found.columns) == ["y", "year", "site", "v"]
    assert found.fetchall() == [(0, 2001, "b", 3), (1, 2001, "b", 7)]
    assert names_of(ds) == {("main", "y_point")}


# Groups


def test_a_group_is_a_schema_and_inherits_coordinates():
    tree = xr.DataTree.from_dict(
        {
            "/": xr.Dataset({"v": ("x", [1, 2])}, coords={"x": [0.5, 1.5]}),
            "/simulation/fine": xr.Dataset({"w": (("x", "z"), [[1, 2], [3, 4]])}),
        }
    )
    assert names_of(tree) == {("main", "x"), ("simulation/fine", "x_z")}
    assert tree.sql.query('SELECT x, z, w FROM "simulation/fine".x_z WHERE x > 1 ORDER BY z').fetchall() == [
        (1.5, 0, 3),
        (1.5, 1, 4),
    ]


def write_groups(path, groups: dict[str, xr.Dataset]):
    for i, (group, ds) in enumerate(groups.items()):
        ds.to_zarr(path, group=group.strip("/") or None, mode="w" if i == 0 else "a", consolidated=False)
    return path


def test_a_misaligned_group_is_listed_and_the_others_work(tmp_path):
    path = write_groups(
        tmp_path / "a.zarr",
        {
            "/": xr.Dataset({"v": ("x", [1, 2, 3])}, coords={"x": [0, 1, 2]}),
            "/bad": xr.Dataset({"w": ("x", [1, 2])}),
            "/good": xr.Dataset({"u": ("x", [4, 5, 6])}),
        },
    )
    with xzsql.open(path) as catalog:
        assert catalog.query("SELECT sum(v) FROM main.x").fetchall() == [(6,)]
        assert catalog.query("SELECT x, u FROM good.x WHERE x = 2").fetchall() == [(2, 6)]
        with pytest.raises(xzsql.XzsqlError) as caught:
            catalog.query("SELECT sum(w) FROM bad.x").fetchall()
        assert all(part in str(caught.value) for part in ("bad", "x", "2", "3"))
        frame = listed(catalog)
        (note,) = frame[frame["schema"] == "bad"]["note"]
        assert all(part in note for part in ("x", "2", "3"))


def test_a_child_may_redefine_a_coordinate(tmp_path):
    path = write_groups(
        tmp_path / "a.zarr",
        {
            "/": xr.Dataset({"v": ("x", [1, 2])}, coords={"x": [0, 1]}),
            "/child": xr.Dataset({"w": ("x", [3, 4])}, coords={"x": [10, 11]}),
        },
    )
    with xzsql.open(path) as catalog:
        assert catalog.query("SELECT x, w FROM child.x ORDER BY x").fetchall() == [(10, 3), (11, 4)]
        assert catalog.query("SELECT x, v FROM main.x ORDER BY x").fetchall() == [(0, 1), (1, 2)]


@pytest.mark.parametrize("name", ["0", "12"])
def test_a_lone_column_that_would_be_a_number_is_value(tmp_path, name):
    xr.Dataset({name: (("y", "x"), [[1, 2]])}).to_zarr(tmp_path / "a.zarr", consolidated=False)
    with xzsql.open(tmp_path / "a.zarr") as catalog:
        assert list(catalog.query("FROM self").columns) == ["y", "x", "value"]
        assert catalog.query("SELECT sum(value) FROM self").fetchall() == [(3,)]
