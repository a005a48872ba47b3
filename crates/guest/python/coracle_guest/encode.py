"""The result as JSON.

| value | JSON |
|---|---|
| `None`, `bool`, `str` | the same; lone surrogates in text become visible escapes (`\\udc80`) |
| `int` | a number if it fits 64 bits, else a string of its digits: most readers would silently round it |
| `float` | a number; `"NaN"`, `"Infinity"`, `"-Infinity"` for values without a JSON number |
| `list`, `tuple`, `deque`, `range`, dictionary views | a list |
| `set`, `frozenset` | a list, sorted if the elements can be sorted |
| mapping | an object. Keys that are not strings become text; see `unique_key` for those with the same text |
| dataclass, named tuple | an object of its fields |
| `Enum` | its value |
| `datetime`, `date`, `time` | ISO 8601 |
| `timedelta` | seconds |
| `Decimal`, `Fraction`, `complex`, `UUID`, path, exception | a string |
| `bytes` and the like | `{"type": "bytes", "length", "base64"}`; beyond `BYTES_SHOWN` also `"truncated": true` |
| `MediaFile` | `{"type": "media", "path", "mime", "size"}`, and `"uri"` if it has one |
| NumPy scalar, record, array | as its Python value, as an object of its fields, as nested lists |
| NumPy `datetime64`, `timedelta64` | ISO 8601; seconds, or text for months and years |
| pandas `DataFrame` | `{"type": "dataframe", "shape", "columns", "rows"}`, the first `ROWS_SHOWN` rows as objects; also `"index"` if it is more than numbers from zero |
| pandas `Series`, `Index` | `{"type": "series", "name", "dtype", "length", "index", "values"}`, as many |
| pandas `Period`, `Interval`; arrays of pandas | a string; a list |
| `NA`, `NaT`, masked values | `null` |
| anything else, including generators (which are not consumed) | its `repr`, at most `REPR_BYTES` long |
| a container inside itself | `"<cycle>"` |
| a value deeper than `MAX_DEPTH` | `"<too deep>"` |

Every object here may be hostile: its methods may raise, lie or return junk. Such a value becomes a string that says
so, and the values beside it are not affected. Work and memory are bounded by the budget, not by the size of the value.
"""

from __future__ import annotations

from coracle_guest import channel, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

MAX_DEPTH = 64
REPR_BYTES = 4096
ROWS_SHOWN = 20
BYTES_SHOWN = 3072
KEY_BYTES = 1024

CYCLE = "<cycle>"
TOO_DEEP = "<too deep>"

_INFINITY = float("inf")


class TooLarge(Exception):
    """The value does not fit into the budget."""


class Items:
    """A value that is a list in JSON: its length, and its elements, which are created lazily."""

    __slots__ = ("length", "kind", "elements", "extra")

    def __init__(self, kind: str, length: int, elements: Iterable[Any], extra: dict[str, Any] | None = None) -> None:
        self.kind = kind
        self.length = length
        self.elements = elements
        self.extra = extra


class Pairs:
    """A value that is an object in JSON: like `Items`, with (key, value) pairs as elements."""

    __slots__ = ("length", "kind", "elements")

    def __init__(self, kind: str, length: int, elements: Iterable[tuple[Any, Any]]) -> None:
        self.kind = kind
        self.length = length
        self.elements = elements


class Encoder:
    """Converts one value to plain JSON data, and stops when it exceeds `budget` bytes."""

    def __init__(self, budget: int) -> None:
        self._left = budget
        self._open: set[int] = set()

    def convert(self, value: Any, depth: int = 0) -> Any:
        """The JSON data for `value`. Raises `TooLarge`."""
        try:
            plain = expand(value)
        except (MemoryError, TooLarge):
            raise
        except BaseException as error:
            plain = f"<{text.type_name(value)} object; reading it raised {text.type_name(error)}>"
        if not isinstance(plain, (Items, Pairs)):
            self._spend(_width(plain))
            return plain
        if id(value) in self._open:
            return self.convert(CYCLE)
        if depth >= MAX_DEPTH:
            return self.convert(TOO_DEEP)
        self._open.add(id(value))
        try:
            self._spend(2)
            if isinstance(plain, Items):
                return self._list(value, plain, depth)
            return self._object(value, plain, depth)
        finally:
            self._open.discard(id(value))

    def _list(self, value: Any, plain: Items, depth: int) -> Any:
        result: list[Any] = []
        try:
            for element in plain.elements:
                self._spend(1)
                result.append(self.convert(element, depth + 1))
        except (MemoryError, TooLarge):
            raise
        except BaseException as error:
            result.append(f"<iterating a {text.type_name(value)} raised {text.type_name(error)}>")
        return result

    def _object(self, value: Any, plain: Pairs, depth: int) -> Any:
        result: dict[str, Any] = {}
        try:
            for key, element in plain.elements:
                name = unique_key(result, key)
                self._spend(len(name) + 4)
                result[name] = self.convert(element, depth + 1)
        except (MemoryError, TooLarge):
            raise
        except BaseException as error:
            note = f"<iterating a {text.type_name(value)} raised {text.type_name(error)}>"
            result[unique_key(result, "error")] = note
        return result

    def _spend(self, amount: int) -> None:
        self._left -= amount
        if self._left < 0:
            raise TooLarge


def _width(scalar: Any) -> int:
    # A lower bound is enough, because the finished text is measured again.
    return len(scalar) + 2 if isinstance(scalar, str) else 1


def unique_key(taken: dict[str, Any], key: Any) -> str:
    """A text for a key that no earlier key of the same object has.

    The first key with a text gets it; later ones get their type added: `1 (str)`, then `1 (str 2)`.
    """
    name = _key_text(key)
    if name not in taken:
        return name
    name = f"{name} ({text.type_name(key)}"
    candidate, count = f"{name})", 1
    while candidate in taken:
        count += 1
        candidate = f"{name} {count})"
    return candidate


def _key_text(key: Any) -> str:
    if type(key) is str:
        return text.valid(key)
    try:
        plain = expand(key)
        return text.cap(plain if type(plain) is str else str(key), KEY_BYTES)
    except MemoryError:
        raise
    except BaseException as error:
        return f"<{text.type_name(key)} key; its str raised {text.type_name(error)}>"


def expand(value: Any) -> Any:
    """One step of the table above: a JSON scalar, or `Items` or `Pairs` with unconverted elements."""
    kind = type(value)
    # The common types first, and by identity: most values have them, and none of them can be hostile.
    if value is None or kind is bool:
        return value
    if kind is str:
        return text.valid(value)
    if kind is int:
        return _integer(value)
    if kind is float:
        return _float(value)
    if kind is list or kind is tuple or kind is range:
        return Items(kind.__name__, len(value), value)
    if kind is dict:
        return Pairs("dict", len(value), value.items())
    if kind is Items or kind is Pairs:
        return value
    from coracle_guest import special

    return special.expand(value)


def _integer(value: int) -> int | str:
    if -(2**63) <= value < 2**64:
        return value
    try:
        return int.__repr__(value)
    except ValueError:
        # Python refuses to convert thousands of digits, because that takes quadratic time.
        return f"<int of {value.bit_length()} bits>"


def _float(value: float) -> float | str:
    if value != value:
        return "NaN"
    if value in (_INFINITY, -_INFINITY):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def encode(value: Any, limit: int) -> tuple[Any, bool]:
    """JSON data of at most `limit` bytes when serialised, and whether it is only a summary of the value."""
    try:
        plain = Encoder(limit).convert(value)
        if text.size(channel.dumps(plain)) <= limit:
            return plain, False
    except TooLarge:
        pass
    from coracle_guest import outline

    return outline.outline(value, limit), True
