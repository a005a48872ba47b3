"""The rows of the table in `encode` for NumPy and pandas. Loaded with the first value that may be one of theirs."""

from __future__ import annotations

import sys

from coracle_guest import encode
from coracle_guest.special import UNKNOWN, checked, derives

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def expand(value: Any) -> Any:
    """Like `special.expand`, for these libraries only."""
    for convert in (_frame, _series, _pandas_scalar, _array, _scalar):
        plain = convert(value)
        if plain is not UNKNOWN:
            return plain
    return UNKNOWN


def _frame(value: Any) -> Any:
    if not derives(value, "pandas", "DataFrame"):
        return UNKNOWN
    rows, columns = value.shape
    head = value.head(encode.ROWS_SHOWN)
    plain = {"type": "dataframe", "shape": [rows, columns], "columns": list(value.columns), "rows": _rows(head)}
    # An index that counts from zero is omitted; others hold information that is nowhere else.
    if not derives(value.index, "pandas", "RangeIndex"):
        plain["index"] = list(head.index)
    return encode.Pairs("dataframe", len(plain), plain.items())


def _rows(head: Any) -> encode.Items:
    """Rows as objects. Pairs instead of dictionaries, because columns may share a name."""
    columns = list(head.columns)
    rows = head.itertuples(index=False, name=None)
    return encode.Items("rows", len(head), (encode.Pairs("row", len(columns), zip(columns, row)) for row in rows))


def _series(value: Any) -> Any:
    if derives(value, "pandas", "Index"):
        head, index = value[: encode.ROWS_SHOWN], []
    elif derives(value, "pandas", "Series"):
        head = value.head(encode.ROWS_SHOWN)
        index = list(head.index)
    elif derives(value, "pandas.api.extensions", "ExtensionArray"):
        return encode.Items("array", len(value), value, {"dtype": str(value.dtype)})
    else:
        return UNKNOWN
    plain = {
        "type": "series",
        "name": value.name,
        "dtype": str(value.dtype),
        "length": len(value),
        "index": index,
        "values": list(head),
    }
    return encode.Pairs("series", len(plain), plain.items())


def _pandas_scalar(value: Any) -> Any:
    pandas = sys.modules.get("pandas")
    if pandas is not None and (value is getattr(pandas, "NA", pandas) or value is getattr(pandas, "NaT", pandas)):
        return None
    return checked(str(value)) if derives(value, "pandas", "Period", "Interval") else UNKNOWN


def _array(value: Any) -> Any:
    if not derives(value, "numpy", "ndarray"):
        return UNKNOWN
    if derives(value, "numpy.ma.core", "MaskedConstant"):
        return None
    if derives(value, "numpy", "matrix"):
        # A row of a matrix is a matrix, and so on endlessly.
        value = value.A
    if value.ndim == 0:
        return encode.expand(value[()] if value.dtype.kind in "Mm" else value.item())
    extra = {"shape": list(value.shape), "dtype": str(value.dtype)}
    return encode.Items("ndarray", len(value), value, extra)


def _scalar(value: Any) -> Any:
    if derives(value, "numpy", "datetime64"):
        moment = str(value)
        return None if moment == "NaT" else checked(moment)
    if derives(value, "numpy", "timedelta64"):
        return _duration(value)
    if not derives(value, "numpy", "generic"):
        return UNKNOWN
    plain = value.item()
    names = getattr(getattr(value, "dtype", None), "names", None)
    if names:
        return encode.Pairs("record", len(names), zip(names, plain))
    # A scalar wider than any Python number returns itself.
    return checked(str(plain)) if derives(plain, "numpy", "generic") else encode.expand(plain)


def _duration(value: Any) -> Any:
    """Seconds. Months and years have no fixed length."""
    if str(value) == "NaT":
        return None
    try:
        return encode.expand(float(value / type(value)(1, "s")))
    except TypeError:
        return checked(str(value))
