"""Arguments as JSON: values with an obvious JSON form are converted, and all others are rejected with their place.

Stricter than the encoding of results, which shows a model any value: a server must not be sent the `repr` of an
object.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_DEPTH = 100


def convert(arguments: dict[str, Any]) -> dict[str, Any]:
    """Convert to plain JSON types. Raises `TypeError` or `ValueError` with the place of a value without such a form."""
    return {str(name): _value(value, str(name), 0) for name, value in arguments.items()}


def _value(value: Any, place: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError(f"argument `{place}` is nested too deeply, or contains itself")
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError(f"argument `{place}` is {value!r}, which JSON has no number for")
        return float(value)
    if isinstance(value, dict) or _is(value, "collections.abc", "Mapping"):
        return {_key(key, place): _value(part, f"{place}.{key}", depth + 1) for key, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset, range)):
        parts = sorted(value) if isinstance(value, (set, frozenset)) else value
        return [_value(part, f"{place}[{index}]", depth + 1) for index, part in enumerate(parts)]
    if _is(value, "enum", "Enum"):
        return _value(value.value, place, depth + 1)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if _is(value, "datetime", "datetime", "date", "time"):
        return value.isoformat()
    if _is(value, "decimal", "Decimal") or _is(value, "uuid", "UUID") or _is(value, "pathlib", "PurePath"):
        return str(value)
    if hasattr(type(value), "__dataclass_fields__"):
        return {name: _value(getattr(value, name), f"{place}.{name}", depth + 1) for name in value.__dataclass_fields__}
    if _is(value, "numpy", "ndarray", "generic"):
        return _value(value.tolist(), place, depth + 1)
    hint = ""
    if _is(value, "coracle.media", "MediaFile"):
        hint = "; the server cannot read files of the sandbox: send their content in the form that the tool asks for"
    raise TypeError(f"argument `{place}` is a {type(value).__name__}, which is not JSON{hint}")


def _key(key: Any, place: str) -> str:
    if not isinstance(key, (str, int, float, bool)) and key is not None:
        raise TypeError(f"argument `{place}` has a {type(key).__name__} as a key, which is not JSON")
    return key if isinstance(key, str) else str(key)


def _is(value: Any, module: str, *names: str) -> bool:
    """Whether `value` is an instance of one of these classes, if their module is loaded."""
    loaded = sys.modules.get(module)
    return loaded is not None and any(isinstance(value, getattr(loaded, name)) for name in names if hasattr(loaded, name))
