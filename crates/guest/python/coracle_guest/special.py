"""The rows of the table in `encode` for types other than the plain ones. Loaded with the first such value.

No module is imported to recognise a type: a `Decimal` cannot exist unless `decimal` is loaded.
"""

from __future__ import annotations

import sys

from coracle_guest import encode, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def expand(value: Any) -> Any:
    """Like `encode.expand`, for types that it does not know."""
    for convert in (_library, _enum, _numbers_and_text, _moments, _named_strings, _containers):
        plain = convert(value)
        if plain is not UNKNOWN:
            return plain
    return text.describe(value, encode.REPR_BYTES)


UNKNOWN: Any = object()
"""The result of a conversion for a value that it does not know."""


def derives(value: Any, module: str, *names: str) -> bool:
    """Whether the real type of `value` derives from one of these classes of a module, if it is loaded."""
    loaded = sys.modules.get(module)
    if loaded is None:
        return False
    bases = type.__getattribute__(type(value), "__mro__")
    return any(getattr(loaded, name, None) in bases for name in names)


def _library(value: Any) -> Any:
    """NumPy and pandas, if the code uses them."""
    if "numpy" not in sys.modules:
        return UNKNOWN
    from coracle_guest import libraries

    return libraries.expand(value)


def _enum(value: Any) -> Any:
    return encode.expand(value._value_) if derives(value, "enum", "Enum") else UNKNOWN


def _numbers_and_text(value: Any) -> Any:
    # Subclasses are read with the methods of their base, so that theirs are not run.
    bases = type.__getattribute__(type(value), "__mro__")
    if str in bases:
        return text.valid(value)
    if int in bases:
        return encode.expand(int.__add__(value, 0))
    if float in bases:
        return encode.expand(float.__add__(value, 0.0))
    if complex in bases:
        return complex.__repr__(value)
    return UNKNOWN


def _moments(value: Any) -> Any:
    if derives(value, "datetime", "datetime", "date", "time"):
        return checked(value.isoformat())
    if derives(value, "datetime", "timedelta"):
        return encode.expand(value.total_seconds())
    return UNKNOWN


def _named_strings(value: Any) -> Any:
    bases = type.__getattribute__(type(value), "__mro__")
    if derives(value, "coracle.media", "MediaFile"):
        plain = {"type": "media", "path": value.path, "mime": value.mime, "size": value.size}
        if value.uri is not None:
            plain["uri"] = value.uri
        return encode.Pairs("media", len(plain), plain.items())
    if BaseException in bases:
        return text.cap(str(value) or text.type_name(value), encode.REPR_BYTES)
    if derives(value, "decimal", "Decimal") or derives(value, "fractions", "Fraction") or derives(value, "uuid", "UUID"):
        return checked(str(value))
    if derives(value, "pathlib", "PurePath"):
        return checked(str(value))
    return UNKNOWN


def checked(plain: Any) -> str:
    """A method's return value, which need not be text."""
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
    if derives(value, "_collections", "deque") or kind in (type({}.keys()), type({}.values()), type({}.items())):
        return encode.Items(name, len(value), value)
    if derives(value, "collections", "UserDict", "ChainMap") or kind is _MAPPING_PROXY:
        return encode.Pairs(name, len(value), ((key, value[key]) for key in value))
    if derives(value, "collections", "UserList"):
        return encode.Items(name, len(value), value)
    return UNKNOWN


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
    # Pseudo-fields (ClassVar, InitVar) have no value in the object.
    names = [field for field in fields if fields[field]._field_type.name == "_FIELD"]
    return encode.Pairs(name, len(names), ((field, getattr(value, field)) for field in names))


def _set(value: Any, name: str) -> Any:
    elements = list((set if isinstance(value, set) else frozenset).__iter__(value))
    try:
        elements.sort()
    except Exception:
        # Elements that cannot be compared: any order is fine.
        pass
    return encode.Items(name, len(elements), elements)
