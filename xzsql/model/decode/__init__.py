"""Stored values to SQL values: missing values, packing, time, text, by the rules of CF and of this project.

`decoder_for` looks at dtype, attributes and encoding and gives a `Decoder`: the Arrow type of the column and a pure
function from a stored block to values and validity. A rule applies by what is still in `attrs`; what xarray moved to
`encoding` was decoded already.
"""

from __future__ import annotations

from xzsql.model.decode.choose import decoder_for
from xzsql.model.decode.record import Decoded, DecodeOptions, Decoder

__all__ = ["DecodeOptions", "Decoded", "Decoder", "decoder_for"]
