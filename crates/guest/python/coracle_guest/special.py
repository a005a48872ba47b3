"""The rows of the table in `encode` for types other than the plain ones. Loaded when the first such value is met.

No module is imported to recognise a type: a `Decimal` cannot exist unless `decimal` is loaded.
"""

from __future__ import annotations

import sys

from coracle_guest import encode, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def expand(value: Any) -> Any:
    """As `encode.expand`, for what that does not know."""
    for convert in (_library, _enum, _numbers_and_text, _moments, _named_strings, _containers):
        plain = convert(value)
        if plain is not _UNKNOWN:
            return plain
    return text.describe(value, encode.REPR_BYTES)


_UNKNOWN: Any = object()


def _is(value: Any, module: str, *names: str) -> bool:
    """Whether the real type of `value` derives from one of these classes of a module, if that is loaded."""
    loaded = sys.modules.get(module)
    if loaded is None:
        return False
    bases = type.__getattribute__(type(value), "__mro__")
    return any(getattr(loaded, name, None) in bases for name in names)


def _enum(value: Any) -> Any:
    return encode.expand(value._value_) if _is(value, "enum", "Enum") else _UNKNOWN


def _numbers_and_text(value: Any) -> Any:
    # Subclasses are read by the methods of their base, so that theirs are not run.
    bases = type.__getattribute__(type(value), "__mro__")
    if str in bases:
        return text.valid(value)
    if int in bases:
        return encode.expand(int.__add__(value, 0))
    if float in bases:
        return encode.expand(float.__add__(value, 0.0))
    if complex in bases:
        return complex.__repr__(value)
    return _UNKNOWN


def _moments(value: Any) -> Any:
    if _is(value, "datetime", "datetime", "date", "time"):
        return _checked(value.isoformat())
    if _is(value, "datetime", "timedelta"):
        return encode.expand(value.total_seconds())
    return _UNKNOWN


def _named_strings(value: Any) -> Any:
    bases = type.__getattribute__(type(value), "__mro__")
    if _is(value, "coracle.media", "MediaFile"):
        plain = {"type": "media", "path": value.path, "mime": value.mime, "size": value.size}
        if value.uri is not None:
            plain["uri"] = value.uri
        return encode.Pairs("media", len(plain), plain.items())
    if BaseException in bases:
        return text.cap(str(value) or text.type_name(value), encode.REPR_BYTES)
    if _is(value, "decimal", "Decimal") or _is(value, "fractions", "Fraction") or _is(value, "uuid", "UUID"):
        return _checked(str(value))
    if _is(value, "pathlib", "PurePath"):
        return _checked(str(value))
    return _UNKNOWN


def _checked(plain: Any) -> str:
    """Text that a method gave, which need not be text."""
    if not isinstance(plain, str):
        raise TypeError
    return text.cap(plain, encode.REPR_BYTES)


def _containers(value: Any) -> Any:
    kind = type(value)
    bases = type.__getattribute__(kind, "__mro__")
    name = text.type_name(value)
    if bytes in bases or bytearray in bases or memoryview in bases:
        return _bytes(value)
    if tuple in bases and type(getattr(kind, "_fields", None)) is tuple:
        return encode.Pairs(name, tuple.__len__(value), zip(kind._fields, tuple.__iter__(value)))
    if hasattr(kind, "__dataclass_fields__"):
        return _dataclass(value, name)
    if list in bases:
        return encode.Items(name, list.__len__(value), list.__iter__(value))
    if tuple in bases:
        return encode.Items(name, tuple.__len__(value), tuple.__iter__(value))
    if set in bases or frozenset in bases:
        return _set(value, name)
    if dict in bases:
        return encode.Pairs(name, dict.__len__(value), dict.items(value))
    if _is(value, "_collections", "deque") or kind in (type({}.keys()), type({}.values()), type({}.items())):
        return encode.Items(name, len(value), value)
    if _is(value, "collections", "UserDict", "ChainMap") or kind is _MAPPING_PROXY:
        return encode.Pairs(name, len(value), ((key, value[key]) for key in value))
    if _is(value, "collections", "UserList"):
        return encode.Items(name, len(value), value)
    return _UNKNOWN


_MAPPING_PROXY = type(type.__dict__)


def _bytes(value: Any) -> Any:
    from binascii import b2a_base64

    view = memoryview(value)
    length = view.nbytes
    simple = view.contiguous and view.itemsize == 1 and view.ndim == 1
    head = bytes(view[: encode.BYTES_SHOWN]) if simple else view.tobytes()[: encode.BYTES_SHOWN]
    shown = b2a_base64(head, newline=False).decode("ascii")
    plain: dict[str, Any] = {"type": "bytes", "length": length, "base64": shown}
    if length > encode.BYTES_SHOWN:
        plain["truncated"] = True
    return encode.Pairs("bytes", len(plain), plain.items())


def _dataclass(value: Any, name: str) -> Any:
    fields = type(value).__dataclass_fields__
    # A field that is no field (ClassVar, InitVar) has no value of its own in the object.
    names = [field for field in fields if fields[field]._field_type.name == "_FIELD"]
    return encode.Pairs(name, len(names), ((field, getattr(value, field)) for field in names))


def _set(value: Any, name: str) -> Any:
    elements = list((set if isinstance(value, set) else frozenset).__iter__(value))
    try:
        elements.sort()
    except Exception:
        # Elements that cannot be compared: any order is as good as another.
        pass
    return encode.Items(name, len(elements), elements)


def _library(value: Any) -> Any:
    """NumPy and pandas, if the code uses them."""
    if _is(value, "pandas", "DataFrame"):
        rows, columns = value.shape
        plain = {
            "type": "dataframe",
            "shape": [rows, columns],
            "columns": list(value.columns),
            "rows": _rows(value),
        }
        return encode.Pairs("dataframe", len(plain), plain.items())
    if _is(value, "pandas", "Series", "Index"):
        head = value[: encode.ROWS_SHOWN] if _is(value, "pandas", "Index") else value.head(encode.ROWS_SHOWN)
        plain = {
            "type": "series",
            "name": value.name,
            "dtype": str(value.dtype),
            "length": len(value),
            "index": list(head.index) if hasattr(head, "index") and not callable(head.index) else [],
            "values": list(head),
        }
        return encode.Pairs("series", len(plain), plain.items())
    pandas = sys.modules.get("pandas")
    if pandas is not None and (value is getattr(pandas, "NA", pandas) or value is getattr(pandas, "NaT", pandas)):
        return None
    if _is(value, "numpy", "ndarray"):
        if value.ndim == 0:
            return encode.expand(value.item())
        extra = {"shape": list(value.shape), "dtype": str(value.dtype)}
        return encode.Items("ndarray", len(value), value, extra)
    if _is(value, "numpy", "generic"):
        plain = value.item()
        # A scalar wider than any Python number gives itself.
        return _checked(str(plain)) if _is(plain, "numpy", "generic") else encode.expand(plain)
    return _UNKNOWN


def _rows(frame: Any) -> encode.Items:
    """The first rows of a data frame as objects. Pairs and not dictionaries: columns may share a name."""
    head = frame.head(encode.ROWS_SHOWN)
    columns = list(frame.columns)
    rows = head.itertuples(index=False, name=None)
    return encode.Items("rows", len(head), (encode.Pairs("row", len(columns), zip(columns, row)) for row in rows))
