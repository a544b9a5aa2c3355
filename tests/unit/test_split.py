import numpy as np
import pytest
import xarray as xr

from xzsql.model.decode import DecodeOptions
from xzsql.model.roles import described, metadata_variables
from xzsql.model.split import split


def of(*datasets, **groups):
    found = {"/": datasets[0]} if datasets else {}
    found.update({"/" + k: v for k, v in groups.items()})
    return split(found, DecodeOptions())


def names(result):
    return {t.name: [c.name for c in t.columns] for t in result.tables}


def zeros(*shape):
    return np.zeros(shape)


def test_one_table_for_each_set_of_dimensions_in_order():
    ds = xr.Dataset({"a": (("t", "y"), zeros(2, 3)), "b": (("y", "t"), zeros(3, 2)), "c": (("t", "y"), zeros(2, 3))})
    assert names(of(ds)) == {"t_y": ["t", "y", "a", "c"], "y_t": ["y", "t", "b"]}


def test_columns_are_dimensions_then_coordinates_then_data():
    ds = xr.Dataset(
        {"t2m": (("time", "y", "x"), zeros(1, 2, 3)), "land": (("y", "x"), zeros(2, 3))},
        coords={"height": 2.0, "lat": (("y", "x"), zeros(2, 3)), "x": [1, 2, 3], "name": ("time", ["a"])},
    )
    result = of(ds)
    assert names(result) == {
        "time_y_x": ["time", "y", "x", "height", "lat", "name", "t2m"],
        "y_x": ["y", "x", "height", "lat", "land"],
    }
    assert [c.role for c in result.tables[0].columns] == ["dimension"] * 3 + ["coordinate"] * 3 + ["data"]
    assert result.tables[0].columns[0].array is None
    assert result.tables[0].columns[2].array is not None


def test_a_coordinate_that_no_table_takes_gets_its_own():
    ds = xr.Dataset({"t": ("time", zeros(4))}, coords={"lat": (("y", "x"), zeros(2, 3)), "y": [5, 6]})
    assert names(of(ds)) == {"time": ["time", "t"], "y_x": ["y", "x", "lat"]}


def test_an_axis_alone_is_a_table_only_where_there_is_nothing_else():
    axes = xr.Dataset(coords={"y": [5, 6], "x": [1]})
    assert names(of(axes)) == {"y": ["y"], "x": ["x"]}
    assert names(of(axes.assign(a=("x", [1])))) == {"x": ["x", "a"]}


def test_scalars_are_one_row():
    result = of(xr.Dataset({"a": 1, "b": 2.5, "c": ("x", [1])}))
    assert names(result) == {"scalar": ["a", "b"], "x": ["x", "c"]}
    assert result.tables[0].rows == 1


def test_bounds_and_containers_are_in_no_table():
    ds = xr.Dataset(
        {
            "t": (("time", "y"), zeros(2, 3), {"grid_mapping": "crs: y other_crs: time"}),
            "time_limits": (("time", "nv"), zeros(2, 2)),
            "y_bnds": (("y", "nv"), zeros(3, 2)),
            "v_bounds": (("y", "k"), zeros(3, 5)),
            "crs": 0,
            "other_crs": 0,
            "mesh": ((), 0, {"cf_role": "mesh_topology"}),
        },
        coords={"time": ("time", [0, 1], {"bounds": "time_limits"})},
    )
    assert names(of(ds)) == {"time_y": ["time", "y", "t"], "y_k": ["y", "k", "v_bounds"]}


def test_bounds_named_in_the_encoding_count_too():
    variable = xr.Variable("t", zeros(2))
    variable.encoding["bounds"] = "edges"
    own = {"t": variable, "edges": xr.Variable(("t", "nv"), zeros(2, 2)), "data": xr.Variable("t", zeros(2))}
    assert metadata_variables([own], own) == {"edges"}


def test_the_levels_of_a_multiindex_stand_in_place_of_the_dimension():
    ds = xr.Dataset({"v": (("x", "y"), np.arange(8).reshape(2, 4))}).stack(z=("x", "y"))
    (table,) = of(ds).tables
    assert [c.name for c in table.columns] == ["x", "y", "v"]
    assert [c.role for c in table.columns] == ["dimension", "dimension", "data"]
    assert table.dims == ("z",)


def test_columns_that_differ_in_case_only():
    result = of(xr.Dataset({"T": ("x", [1]), "t": ("x", [2]), "t_1": ("x", [3])}))
    assert names(result) == {"x": ["x", "T", "t_2", "t_1"]}
    assert len(result.renamed) == 1
    assert "'t'" in result.renamed[0]
    assert "'T'" in result.renamed[0]


def test_other_letters_are_told_apart_as_duckdb_does():
    assert names(of(xr.Dataset({"É": ("x", [1]), "é": ("x", [2])}))) == {"x": ["x", "É", "é"]}


def test_a_2d_coordinate_named_like_its_dimension():
    ds = xr.Dataset({"v": (("x", "y"), zeros(2, 3))}).assign_coords({"x": (("x", "y"), zeros(2, 3))})
    (table,) = of(ds).tables
    assert [c.name for c in table.columns] == ["x", "y", "x_1", "v"]
    assert table.columns[0].array is None


@pytest.mark.parametrize(
    "variables",
    [
        {"p": (("a", "b"), zeros(1, 1)), "q": (("a_b",), zeros(1))},
        {"p": (("T",), zeros(1)), "q": (("t",), zeros(1))},
    ],
)
def test_tables_that_would_share_a_name_get_none(variables):
    tables = of(xr.Dataset(variables)).tables
    assert [t.name for t in tables] == [None, None]
    assert all("choose it by dims" in t.note for t in tables)


@pytest.mark.parametrize("dim", ["self", "scalar", "Self"])
def test_reserved_table_names_are_not_given(dim):
    tables = {t.dims: t for t in of(xr.Dataset({"a": (dim, zeros(2)), "b": ("x", zeros(1))})).tables}
    assert tables[dim,].name is None
    assert "choose it by dims" in tables[dim,].note
    assert tables["x",].name == "x"


@pytest.mark.parametrize("name", ["0", "12", "a/b", "1.5"])
def test_a_lone_column_named_by_a_number_or_path_is_value(name):
    assert names(of(xr.Dataset({name: ("x", [1])}))) == {"x": ["x", "value"]}
    assert names(of(xr.Dataset({name: ("x", [1]), "b": ("x", [1])}))) == {"x": ["x", name, "b"]}


def test_groups_are_schemas_and_inherit_coordinates():
    root = xr.Dataset(coords={"x": [10, 20], "name": ("x", ["a", "b"])})
    fine = xr.Dataset({"v": (("x", "y"), zeros(2, 3))})
    own = xr.Dataset({"v": ("x", zeros(2))}, coords={"x": [7, 8]})
    result = of(root, **{"simulation/fine": fine, "own": own})
    tables = {t.schema: t for t in result.tables}
    assert tables["simulation/fine"].columns[0].array.load({}).values.tolist() == [10, 20]
    assert tables["own"].columns[0].array.load({}).values.tolist() == [7, 8]


def test_a_misaligned_group_leaves_the_others():
    root = xr.Dataset({"r": ("x", zeros(2))}, coords={"x": [10, 20]})
    result = of(root, bad=xr.Dataset({"v": ("x", zeros(3))}), good=xr.Dataset({"v": ("x", zeros(2))}))
    tables = {t.group: t for t in result.tables}
    assert (tables["/"].readable, tables["/bad"].readable, tables["/good"].readable) == (True, False, True)
    assert tables["/bad"].name is None
    assert "dimension 'x' of group /bad has length 3, but 2 in group /" in tables["/bad"].note


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (["A", "a"], [None, None]),
        (["main"], [None]),
        (["information_schema", "ok"], [None, "ok"]),
        (["pg_catalog"], [None]),
    ],
)
def test_schema_names_that_collide(groups, expected):
    ds = xr.Dataset({"v": ("x", zeros(1))})
    result = of(ds, **dict.fromkeys(groups, ds))
    assert [t.schema for t in result.tables] == ["main", *expected]
    assert all(t.note for t in result.tables[1:] if t.schema is None)


def test_an_unsupported_variable_leaves_the_others():
    ds = xr.Dataset({"bad": ("x", np.zeros(1, np.longdouble)), "good": ("x", [1])})
    result = of(ds)
    assert names(result) == {"x": ["x", "good"]}
    assert [(x.group, x.variable, x.dims) for x in result.left_out] == [("/", "bad", ("x",))]
    assert "float128" in result.left_out[0].reason


def test_what_a_comment_says():
    assert described(xr.Variable((), 0, {"long_name": "air", "units": "K"})) == "air [K]"
    assert described(xr.Variable((), 0, {"standard_name": "air"})) == "air"
    assert described(xr.Variable((), 0, {"units": "K"})) == "[K]"
    assert described(xr.Variable((), 0)) == ""


def test_a_table_says_why_a_time_axis_stayed_numeric():
    time = ("time", [0, 1], {"units": "days since 2000-01-01", "calendar": "noleap"})
    (table,) = of(xr.Dataset({"v": ("time", [1, 2])}, coords={"time": time})).tables
    assert table.name == "time"
    assert "time: " in table.note
    assert "noleap" in table.note


def test_the_levels_of_a_multiindex_may_be_text():
    stacked = xr.Dataset({"v": (("x", "y"), zeros(2, 2))}, coords={"x": ["a", "b"], "y": [1, 2]}).stack(z=("x", "y"))
    again = xr.Dataset({"v": stacked.v.variable}, coords=dict(stacked.coords))
    (table,) = of(again).tables
    assert table.columns[0].array.load({}).values.tolist() == ["a", "a", "b", "b"]
