"""Files that people made: every table against the undecoded file, read by xarray and decoded by the rules."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import xarray as xr
from zarr.storage import MemoryStore

import xzsql
from xzsql.testing import oracle
from xzsql.testing.spies import CountingStore, RecordingArray, touched_chunks
from xzsql.testing.strategies import literal

pytestmark = [pytest.mark.realdata, pytest.mark.filterwarnings("ignore::xzsql.XzsqlWarning")]

#: The tables that each file has, by its header, and the columns of each; None says that only the table is asked for.
TABLES: dict[str, dict[str, list[str] | None]] = {
    "A1B_north_america.nc": {
        "time_latitude_longitude": [
            "time", "latitude", "longitude", "forecast_period", "forecast_reference_time", "height", "air_temperature",
        ]
    },
    "E1_north_america.nc": {
        "time_latitude_longitude": [
            "time", "latitude", "longitude", "forecast_period", "forecast_reference_time", "height", "air_temperature",
        ]
    },
    "SOI_Darwin.nc": {"time": ["time", "SOI_Darwin"]},
    "atlantic_profiles.nc": {"depth_lat_lon": ["depth", "lat", "lon", "time", "salinity", "theta"]},
    "hybrid_height.nc": {
        "model_level_number_grid_latitude_grid_longitude": [
            "model_level_number", "grid_latitude", "grid_longitude", "forecast_period", "forecast_reference_time",
            "level_height", "sigma", "surface_altitude", "time", "air_potential_temperature",
        ]
    },
    "mesh_C4_synthetic_float.nc": {"nexample_C4_face": None},
    "orca2_votemper.nc": {"dim0_dim1": ["dim0", "dim1", "deptht", "nav_lat", "nav_lon", "time_counter", "votemper"]},
    "ostia_monthly.nc": {
        "time_latitude_longitude": [
            "time", "latitude", "longitude", "forecast_period", "forecast_reference_time", "surface_temperature",
        ]
    },
    "rotated_pole.nc": {
        "grid_latitude_grid_longitude": [
            "grid_latitude", "grid_longitude", "forecast_period", "forecast_reference_time", "time",
            "air_pressure_at_sea_level",
        ]
    },
    "space_weather.nc": {
        "height_rLat_rLon": ["height", "rLat", "rLon", "latitude", "longitude", "Ne"],
        "rLat_rLon": ["rLat", "rLon", "latitude", "longitude", "TEC"],
    },
    "toa_brightness_stereographic.nc": {"y_x": ["y", "x", "lat", "lon", "time", "data"]},
    "vlstr_type.nc": {"time_lat_lon": ["time", "lat", "lon", "expver", "wind"]},
    "basin_mask.nc": {"Z_Y_X": ["Z", "Y", "X", "basin"]},
    "eraint_uvz.nc": {"month_level_latitude_longitude": ["month", "level", "latitude", "longitude", "z", "u", "v"]},
}  # fmt: skip
#: Coordinates of two dimensions: latitude and the variable to read.
CURVILINEAR = {
    "orca2_votemper.nc": ("nav_lat", "votemper"),
    "toa_brightness_stereographic.nc": ("lat", "data"),
    "space_weather.nc": ("latitude", "Ne"),
    "nemo_1m_20150101-20150201_grid-T.nc": ("nav_lat", "tos"),
}


def _sample_folder() -> Path | None:
    try:
        import iris_sample_data
    except ImportError:
        return None
    return Path(iris_sample_data.__file__).parent / "sample_data"


SAMPLES = sorted(p.name for p in _sample_folder().rglob("*.nc")) if _sample_folder() else list(TABLES)[:12]
SHARED = ["basin_mask.nc", "eraint_uvz.nc"]


@pytest.fixture
def file(request, shared) -> Path:
    name = request.param
    if name in SHARED:
        return shared(name)
    folder = _sample_folder()
    if folder is None:
        pytest.skip("iris-sample-data is not installed")
    return next(folder.rglob(name))


every_file = pytest.mark.parametrize("file", [*SAMPLES, *SHARED], indirect=True)


def undecoded(path: Path) -> xr.Dataset:
    return xr.open_dataset(path, engine="netcdf4", decode_cf=False)


@cache
def expected(path: Path) -> dict[tuple[str, str], pa.Table]:
    with undecoded(path) as raw:
        return oracle.frames(raw)


def q(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@every_file
def test_tables_are_listed_and_no_data_variable_is_lost(file):
    with xzsql.open(file) as catalog:
        rows = catalog.tables().df().to_dict("records")
    listed = {r["name"]: list(r["columns"]) for r in rows if isinstance(r["name"], str)}
    for name, columns in TABLES.get(file.name, {}).items():
        assert name in listed
        assert columns is None or sorted(listed[name]) == sorted(columns)
    for (_, name), table in expected(file).items():
        assert sorted(listed[name]) == sorted(table.column_names)
        assert next(r["rows"] for r in rows if r["name"] == name) == table.num_rows


@every_file
def test_every_column_has_the_count_minimum_maximum_and_mean_of_the_file(file):
    with xzsql.open(file) as catalog:
        for (_, name), table in expected(file).items():
            kinds = catalog.query(f"FROM {q(name)} LIMIT 0").arrow().schema
            for column in table.column_names:
                cells, kind = table[column], table.schema.field(column).type
                assert kinds.field(column).type == kind, column
                numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
                mean = f"avg({q(column)}::DOUBLE)" if numeric else "NULL"
                sql = f"SELECT count({q(column)}), min({q(column)}), max({q(column)}), {mean} FROM {q(name)}"
                count, low, high, average = catalog.query(sql).fetchone()
                limits = pc.min_max(cells).as_py()
                assert (count, low, high) == (len(cells) - cells.null_count, limits["min"], limits["max"]), column
                if numeric and count:
                    values = cells.cast(pa.float64()).drop_null().to_pylist()
                    exact, size = math.fsum(values) / count, math.fsum(map(abs, values)) / count
                    assert abs(average - exact) <= 1e-12 * size, column


def box(table: pa.Table, dims: list[str]) -> tuple[str, np.ndarray]:
    """The middle half of each coordinate, as SQL and as a mask of the rows."""
    terms, kept = [], np.ones(table.num_rows, bool)
    for d in dims:
        values, kind = table[d], table.schema.field(d).type
        steps = values.cast(pa.int64()) if pa.types.is_timestamp(kind) else values
        known = np.sort(steps.drop_null().unique().to_numpy())
        low, high = known[len(known) // 4].item(), known[(3 * len(known)) // 4].item()
        terms.append(f"{q(d)} BETWEEN {literal(low, kind)} AND {literal(high, kind)}")
        found = steps.to_numpy()
        kept &= (found >= low) & (found <= high)
    return " AND ".join(terms), kept


@every_file
def test_a_box_of_every_table_holds_the_rows_of_the_file(file):
    with xzsql.open(file) as catalog, undecoded(file) as raw:
        for (_, name), table in expected(file).items():
            dims = [c for c in table.column_names if c in raw.dims]
            where, kept = box(table, dims)
            assert kept.any()
            found = catalog.query(f"FROM {q(name)} WHERE {where}").arrow()
            whole = table.filter(pa.array(kept)) if kept.sum() < 50_000 else None
            if whole is not None:
                assert oracle.difference(found.select(table.column_names), whole) == ""
            else:
                assert found.num_rows == kept.sum()
                for column in table.column_names:
                    want = table[column].filter(pa.array(kept))
                    assert found[column].null_count == want.null_count, column
                    assert pc.min_max(found[column]) == pc.min_max(want), column
                    if pa.types.is_floating(want.type):
                        sums = [math.fsum(c.drop_null().to_pylist()) for c in (found[column], want)]
                        assert sums[0] == sums[1], column


def curvilinear(path: Path) -> tuple[xr.Dataset, str, str]:
    """The file in memory, undecoded but for its coordinates, cut to one variable."""
    latitude, name = CURVILINEAR[path.name]
    with undecoded(path) as raw:
        names = {n for v in raw.variables.values() for n in str(v.attrs.get("coordinates", "")).split()}
        whole = raw.set_coords([n for n in names if n in raw])[[name]].load()
    whole[name].attrs.pop("coordinates", None)
    return whole, latitude, name


curvilinear_files = pytest.mark.parametrize("file", list(CURVILINEAR), indirect=True)


def latitude_band(whole: xr.Dataset, latitude: str) -> tuple[float, float, xr.DataArray]:
    values = whole[latitude].values
    low, high = (v.item() for v in np.sort(values, axis=None)[[values.size * 6 // 10, values.size * 7 // 10]])
    return low, high, (whole[latitude] >= low) & (whole[latitude] <= high)


@curvilinear_files
def test_a_band_of_2_d_latitudes_reads_fewer_cells(file):
    whole, latitude, name = curvilinear(file)
    low, high, kept = latitude_band(whole, latitude)
    spy = RecordingArray(whole[name].values)
    lazy = whole.assign({name: spy.variable(whole[name].dims, **whole[name].attrs)})
    kind = pa.from_numpy_dtype(whole[latitude].dtype)
    sql = f"SELECT {name} FROM self WHERE {latitude} BETWEEN {literal(low, kind)} AND {literal(high, kind)}"
    mask = kept.broadcast_like(whole[name]).transpose(*whole[name].dims).values
    cells = oracle.cells(whole[name].variable).filter(pa.array(mask.ravel()))
    assert oracle.difference(lazy.sql.query(sql).arrow(), pa.table({name: cells})) == ""
    assert spy.touched()[mask].all()
    assert spy.cells() < spy.values.size


@curvilinear_files
def test_a_band_of_2_d_latitudes_reads_fewer_blocks_of_a_chunked_copy(file):
    whole, latitude, name = curvilinear(file)
    low, high, kept = latitude_band(whole, latitude)
    store = MemoryStore()
    chunks = tuple(max(1, n // 8) for n in whole[name].shape)
    for variable in whole.variables.values():
        variable.encoding = {}
    whole.to_zarr(store, encoding={name: {"chunks": chunks}}, consolidated=False)
    spy = CountingStore(store)
    lazy = xr.open_zarr(spy, chunks=None, decode_cf=False, consolidated=False)
    lazy = lazy.set_coords([n for n in whole.coords if n in lazy])
    spy.clear_log()
    kind = pa.from_numpy_dtype(whole[latitude].dtype)
    sql = f"SELECT {name} FROM self WHERE {latitude} BETWEEN {literal(low, kind)} AND {literal(high, kind)}"
    mask = kept.broadcast_like(whole[name]).transpose(*whole[name].dims).values
    cells = oracle.cells(whole[name].variable).filter(pa.array(mask.ravel()))
    with xzsql.options(block_bytes=1):
        assert oracle.difference(lazy.sql.query(sql).arrow(), pa.table({name: cells})) == ""
    assert {i for _, i in spy.chunks(name)} == touched_chunks(mask, chunks)
    assert len(spy.chunks(name)) < math.prod(-(-n // c) for n, c in zip(mask.shape, chunks, strict=True))
