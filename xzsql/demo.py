"""A first look: a small store is made, asked, and the answer shown. Run by `python -m xzsql.demo`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import xarray as xr

import xzsql

_WARMEST = """
SELECT latitude, round(avg(t2m) - 273.15, 2) AS celsius, round(sum(tp), 1) AS rain
FROM time_latitude_longitude
WHERE latitude BETWEEN 30 AND 60 AND time >= '2024-07-01' AND time < '2024-07-08'
GROUP BY latitude ORDER BY latitude DESC
"""


def make_store(path: Path) -> None:
    """A year of six-hourly temperature and packed rain on a global 5 degree grid, in daily chunks, and a land mask."""
    rng = np.random.default_rng(7)
    time = np.datetime64("2024-01-01", "ns") + np.arange(0, 366 * 24, 6).astype("timedelta64[h]")
    latitude, longitude = np.arange(90.0, -91, -5), np.arange(0.0, 360, 5)
    season = 12 * np.sin(2 * np.pi * (np.arange(len(time)) / len(time) - 0.28))
    warmth = 250 + 50 * np.cos(np.deg2rad(latitude))[None, :] + season[:, None] * np.sign(latitude)[None, :]
    shape = (len(time), len(latitude), len(longitude))
    t2m = (warmth[:, :, None] + rng.normal(0, 2, shape)).astype("float32")
    rain = rng.gamma(0.3, 2.0, shape)
    dims = ("time", "latitude", "longitude")
    dataset = xr.Dataset(
        {
            "t2m": (dims, t2m, {"long_name": "2 metre temperature", "units": "K"}),
            "tp": (dims, rain, {"long_name": "total precipitation", "units": "mm"}),
            "land": (("latitude", "longitude"), rng.random(shape[1:]) < 0.3),
        },
        coords={"time": time, "latitude": latitude, "longitude": longitude},
    )
    chunks = (4, *shape[1:])
    packed = {"dtype": "int16", "scale_factor": 0.01, "add_offset": 0.0, "_FillValue": -32768}
    encoding = {"t2m": {"chunks": chunks}, "tp": {"chunks": chunks, **packed}, "time": {"chunks": (len(time),)}}
    dataset.to_zarr(path, encoding=encoding, consolidated=False)


def main() -> None:
    """Make the store in a temporary folder, ask, and print."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "demo.zarr"
        make_store(store)
        with xzsql.open(store) as catalog:
            print(f"{catalog!r}\n")
            print(f"Its tables, catalog.tables():\n\n{catalog.tables()!r}\n")
            print(f"A question, catalog.query(sql):\n{_WARMEST}")
            print("What it would read, and how DuckDB goes about it, catalog.explain(sql):\n")
            print(f"{catalog.explain(_WARMEST)!r}\n")
            print(f"The answer:\n\n{catalog.query(_WARMEST)!r}\n")
        print("Next: README.md, or in Python:  import xzsql; xzsql.open('your.nc').tables()")


if __name__ == "__main__":
    main()
