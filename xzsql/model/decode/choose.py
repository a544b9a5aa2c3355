"""Which decoder a variable gets, from its dtype, attributes and encoding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import xarray as xr

from xzsql.errors import UnsupportedError, ValueRangeError
from xzsql.model.decode import attributes, calendar, objects, steps
from xzsql.model.decode.plain import of_bytes, of_dtype, of_extension, of_holed
from xzsql.model.decode.record import DecodeOptions, Decoder, flat
from xzsql.model.variables import in_memory, load


def decoder_for(variable: xr.Variable, name: str, options: DecodeOptions, *, index: bool = False) -> Decoder:
    """The type of a variable's column and the function that decodes its blocks.

    Parameters
    ----------
    variable
        With the attributes and the encoding that it was opened with.
    name
        For messages.
    options
        Which of the rules apply.
    index
        Whether it is an index coordinate, whose values may be looked at.

    Returns
    -------
    Decoder
        No data is read, but a variable in memory and an index coordinate are looked at where only the values can tell
        (whole microseconds, dates before 1582-10-15, object arrays).

    Raises
    ------
    UnsupportedError
        No SQL type holds these values; the message has the reason.

    References
    ----------
    CF conventions 1.11, sections 2.5.1 (missing data), 4.4 (time) and 8.1 (packed data).

    Examples
    --------
    >>> packed = xr.Variable("x", np.array([1, -99], "i2"), {"scale_factor": 0.5, "_FillValue": -99})
    >>> decoder = decoder_for(packed, "t", DecodeOptions())
    >>> decoder.type, decoder.apply(packed.values).valid.tolist()
    (DataType(double), [True, False])
    """
    try:
        return _decoder(variable, options, index=index)
    except UnsupportedError as error:
        raise UnsupportedError(f"variable {name!r}: {error}") from error


def _decoder(variable: xr.Variable, options: DecodeOptions, *, index: bool) -> Decoder:
    dtype: Any = variable.dtype
    look = index or in_memory(variable)
    if isinstance(dtype, pd.api.extensions.ExtensionDtype):
        return of_extension(dtype, options)
    if dtype.kind in "iuf" and dtype.itemsize <= 8:
        return _of_numbers(variable, options, look=look, index=index)
    if dtype.kind == "c":
        return _of_complex(variable, options)
    if dtype.kind == "M":
        return _of_instants(variable, look=look)
    if dtype.kind == "O":
        return _of_objects(variable, options, look=look, index=index)
    if dtype.kind == "S" and "_Encoding" in variable.attrs:
        return of_dtype(dtype, options, str(variable.attrs["_Encoding"]))
    return of_dtype(dtype, options)


def _of_numbers(variable: xr.Variable, options: DecodeOptions, *, look: bool, index: bool) -> Decoder:
    dtype, attrs = variable.dtype, variable.attrs
    whole = dtype.kind in "iu"
    if whole and str(attrs.get("dtype")) == "bool":
        return Decoder(pa.bool_(), flat(lambda raw: (raw != 0, None)))
    found = attributes.sentinels(variable, options.mask_fill_value)
    if whole:
        meant = attributes.meant_dtype(dtype, attrs)
        step = steps.integers(meant, attributes.as_integers(found, dtype, meant))
        packing = attributes.packing(attrs)
        if packing is not None:
            return Decoder(pa.float64(), flat(steps.unpack(step, packing)))
    else:
        meant = np.dtype(np.float64 if dtype.itemsize == 8 else np.float32)
        numbers, nan = attributes.as_floats(found, dtype)
        step = steps.floats(meant, numbers, nan=nan or options.nan_as_null)
    timed, note = None, ""
    if options.decode_times:
        timed, note = _of_counts(variable, step, look=look, index=index)
    duration = calendar.duration_step(attrs.get("units"))
    declared = options.decode_times and str(attrs.get("dtype")).startswith("timedelta64")
    if duration is not None and (options.decode_timedelta or declared):
        return Decoder(pa.duration("us"), flat(steps.counted_durations(step, duration)))
    return timed or Decoder(pa.from_numpy_dtype(meant), flat(step), note)


# --- time


def _of_counts(variable: xr.Variable, step: steps.Step, *, look: bool, index: bool) -> tuple[Decoder | None, str]:
    """The decoder by the time units of a variable, or None and why there is none."""
    units, note = calendar.parse_units(variable.attrs.get("units"), variable.attrs.get("calendar"))
    if units is None:
        return None, note
    return _timed(variable, step, units, look=look, index=index)


def _timed(
    variable: xr.Variable, step: steps.Step, units: calendar.TimeUnits, *, look: bool, index: bool
) -> tuple[Decoder | None, str]:
    """None where an index has days that only the mixed calendar has."""
    unit = units.unit
    if look and (unit == "ns" or (index and units.mixed)):
        with np.errstate(all="ignore"):
            stored, valid = step(np.asarray(load(variable)).reshape(-1))
            if unit == "ns" and _in_microseconds(stored, units, valid):
                unit = "us"
            found, inside = calendar.instants(stored, units, unit, valid)
            if index and units.mixed and steps.before_gregorian(found, steps.both(valid, inside), unit).any():
                return (
                    None,
                    "some dates are before 1582-10-15, where the standard calendar is not that of SQL timestamps",
                )
    return Decoder(pa.timestamp(unit), flat(steps.counted_instants(step, units, unit))), ""


def _in_microseconds(stored: Any, units: calendar.TimeUnits, valid: Any) -> bool:
    try:
        calendar.instants(stored, units, "us", valid)
    except ValueRangeError:
        return False
    return True


def _of_instants(variable: xr.Variable, *, look: bool) -> Decoder:
    calendar.check_unit(variable.dtype)
    unit: calendar.Unit = "us"
    if look:
        try:
            calendar.rescale(np.asarray(load(variable)).reshape(-1), "us")
        except ValueRangeError:
            unit = "ns"
    elif np.datetime_data(variable.dtype)[0] not in ("Y", "M", "W", "D", "h", "m", "s", "ms", "us"):
        encoding = variable.encoding
        units, _ = calendar.parse_units(encoding.get("units"), encoding.get("calendar"))
        unit = "us" if units is None else units.unit
    return Decoder(pa.timestamp(unit), flat(steps.instants(unit)))


def _of_dates(variable: xr.Variable, *, look: bool, index: bool) -> Decoder:
    """Cftime objects: instants where their calendar is that of SQL, numbers by their encoding otherwise."""
    encoding = variable.encoding
    name, values = str(encoding.get("calendar", "standard")).lower(), None
    if look:
        values = np.asarray(load(variable)).reshape(-1)
        names = {value.calendar for value in values[~pd.isna(values)]}
        if len(names) != 1:
            raise UnsupportedError(f"dates of several calendars: {', '.join(sorted(names))}")
        name = names.pop()
    micros = "microseconds since 1970-01-01"
    units, note = calendar.parse_units(micros, name)
    if units is not None:
        step = steps.dates(micros, name, np.dtype(np.int64))
        timed, note = _timed(variable, step, units, look=look, index=index)
        if timed is not None:
            return timed
    counted, kind = str(encoding.get("units", micros)), np.dtype(encoding.get("dtype", "i8")).kind
    if values is not None:
        try:
            kind = calendar.date_numbers(values, counted, name)[0].dtype.kind
        except ValueError:
            counted, kind = micros, "i"
    target = np.dtype(np.int64 if kind in "iu" else np.float64)
    return Decoder(pa.from_numpy_dtype(target), flat(steps.dates(counted, name, target)), f"{note}; {counted}")


# --- everything else


def _of_complex(variable: xr.Variable, options: DecodeOptions) -> Decoder:
    plain = of_dtype(variable.dtype, options)
    numbers, nan = attributes.as_floats(attributes.sentinels(variable, options.mask_fill_value), variable.dtype)
    native = variable.dtype.newbyteorder("=")
    return Decoder(plain.type, flat(steps.floats(native, numbers, nan=nan or options.nan_as_null)))


def _of_objects(variable: xr.Variable, options: DecodeOptions, *, look: bool, index: bool) -> Decoder:
    encoding = variable.encoding
    if look:
        what: objects.Content | None = objects.content(np.asarray(load(variable)).reshape(-1))
    elif "units" in encoding and "calendar" in encoding:
        what = "date"
    else:
        what = objects.declared(variable.dtype, encoding.get("dtype"))
    if what is None:
        raise UnsupportedError("an object array not in memory, and nothing says what its objects are; load it first")
    if what == "date":
        return _of_dates(variable, look=look, index=index)
    if what == "text" and not look:
        # a file may give bytes where it says text
        return Decoder(pa.string(), flat(lambda raw: objects.decoded_text(raw, "utf-8")))
    if what == "text":
        return Decoder(pa.string(), flat(objects.text))
    if what == "bytes":
        return of_bytes(options)
    dtype = objects.number_dtype(np.asarray(load(variable)).reshape(-1), what) if look else np.dtype(bool)
    return of_holed(dtype, options)
