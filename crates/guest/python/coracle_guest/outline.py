"""Summarises a result that is too large: its shape and its beginning, always within the limit.

| value | summary |
|---|---|
| text | `{"type": "str", "length", "head", "tail"}` |
| list-like | `{"type", "length", "items": [the first few]}`, for arrays also `shape` and `dtype` |
| object-like | `{"type", "length", "keys": [the first], "items": {the first few}}` |

Parts that are too large are summarised in the same way. If the limit leaves no room even for this, the result is
`null`.
"""

from __future__ import annotations

from coracle_guest import channel, encode, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ITEMS_SHOWN = 5
KEYS_SHOWN = 50
_MAX_LEVELS = 4
_SMALLEST = 64


def outline(value: Any, limit: int) -> Any:
    """A summary of `value` of at most `limit` bytes as JSON."""
    try:
        # At most twice the work: each attempt gives the parts less room than the one before.
        for share in (2, 4, 16):
            summary = _summary(value, limit // share, 0)
            if _fits(summary, limit):
                return summary
        for summary in (_bare(value), None):
            if _fits(summary, limit):
                return summary
    except (MemoryError, encode.TooLarge):
        pass
    return None


def _fits(plain: Any, limit: int) -> bool:
    return text.size(channel.dumps(plain)) <= limit


def _summary(value: Any, room: int, level: int) -> Any:
    plain = _expanded(value)
    if isinstance(plain, str):
        half = max(room // 2 - _SMALLEST, 0)
        # In bytes rather than characters, like the limit; escapes in JSON may still need a second attempt.
        head = plain.encode("utf-8")[:half].decode("utf-8", "ignore")
        tail = plain[-half:].encode("utf-8")[-half:].decode("utf-8", "ignore") if half else ""
        return {"type": "str", "length": len(plain), "head": head, "tail": tail}
    if not isinstance(plain, (encode.Items, encode.Pairs)):
        return plain
    summary = _bare(plain)
    if level >= _MAX_LEVELS or room < _SMALLEST:
        return summary
    if isinstance(plain, encode.Items):
        if plain.extra:
            summary.update(plain.extra)
        share = room // ITEMS_SHOWN
        summary["items"] = [_part(element, share, level) for element in _first(plain.elements, ITEMS_SHOWN)]
        return summary
    keys: list[str] = []
    items: dict[str, Any] = {}
    share = room // (2 * ITEMS_SHOWN)
    left = room // 2
    for key, element in _first(plain.elements, KEYS_SHOWN):
        name = encode.unique_key(items, key)
        left -= len(name) + 4
        if left < 0:
            break
        keys.append(name)
        if len(items) < ITEMS_SHOWN:
            items[name] = _part(element, share, level)
    summary["keys"] = keys
    summary["items"] = items
    return summary


def _part(value: Any, room: int, level: int) -> Any:
    """An element of a container, complete if it is small enough."""
    try:
        return encode.Encoder(max(room, _SMALLEST)).convert(value, encode.MAX_DEPTH // 2)
    except encode.TooLarge:
        return _summary(value, room, level + 1)


def _bare(value: Any) -> dict[str, Any]:
    plain = _expanded(value)
    if isinstance(plain, (encode.Items, encode.Pairs)):
        return {"type": plain.kind[:_SMALLEST], "length": plain.length}
    return {"type": text.type_name(value)[:_SMALLEST], "length": len(plain) if isinstance(plain, str) else 1}


def _expanded(value: Any) -> Any:
    try:
        return encode.expand(value)
    except MemoryError:
        raise
    except BaseException as error:
        return f"<{text.type_name(value)} object; reading it raised {text.type_name(error)}>"


def _first(elements: Any, count: int) -> list[Any]:
    """The first elements, or those before the first that raised."""
    found: list[Any] = []
    try:
        for element in elements:
            found.append(element)
            if len(found) == count:
                break
    except MemoryError:
        raise
    except BaseException:
        pass
    return found
