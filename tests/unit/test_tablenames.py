import numpy as np
import pytest
import xarray as xr

from xzsql.errors import InvalidInputError, NameTakenError, UnknownNameError
from xzsql.model.decode import DecodeOptions
from xzsql.model.names import renamed
from xzsql.model.split import split


@pytest.fixture
def tables():
    root = xr.Dataset({"a": (("t", "y"), np.zeros((1, 1))), "b": ("y", [1])})
    return split({"/": root, "/g/h": xr.Dataset({"c": ("y", [1])})}, DecodeOptions()).tables


def given(tables, names):
    return [(t.group, name) for t, name in renamed(tables, names)]


def test_without_names_they_keep_theirs(tables):
    assert given(tables, {}) == [("/", "t_y"), ("/", "y"), ("/g/h", "y")]


@pytest.mark.parametrize("names", [{"new": ("y",)}, {("y",): "new"}, {"new": ["y"]}])
def test_dimensions_rename_in_every_group(tables, names):
    assert given(tables, names) == [("/", "t_y"), ("/", "new"), ("/g/h", "new")]


def test_a_path_renames_one_table(tables):
    assert given(tables, {"g/h/y": "new"}) == [("/", "t_y"), ("/", "y"), ("/g/h", "new")]
    assert given(tables, {"/Y": "new"}) == [("/", "t_y"), ("/", "new"), ("/g/h", "y")]


def test_a_key_that_matches_nothing_lists_what_there_is(tables):
    with pytest.raises(UnknownNameError, match=r"no table 'yy' in table_names; there is 't_y', 'y', 'g/h/y'"):
        renamed(tables, {"yy": "new"})
    with pytest.raises(UnknownNameError, match=r"\['z'\].*\['t', 'y'\]"):
        renamed(tables, {"new": ("z",)})


def test_two_tables_of_one_name_are_refused(tables):
    with pytest.raises(NameTakenError, match=r"\['t', 'y'\] and \['y'\].*'y'"):
        renamed(tables, {"t_y": "Y"})


def test_two_names_for_one_table_are_refused(tables):
    with pytest.raises(InvalidInputError, match="two names: 'one' and 'two'"):
        renamed(tables, {"one": ("t", "y"), "t_y": "two"})


@pytest.mark.parametrize("names", [{("y",): ("t",)}, {"new": (1, 2)}, {"y": ""}])
def test_nonsense_is_refused(tables, names):
    with pytest.raises(InvalidInputError, match="table_names"):
        renamed(tables, names)
