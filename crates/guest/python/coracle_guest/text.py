"""Text that leaves the sandbox: always valid Unicode within a size limit, even if objects are hostile."""

from __future__ import annotations


def valid(text: str) -> str:
    """`text` as a plain `str` without lone surrogates; these become a visible escape such as `\\udc80`."""
    # Not `str(text)`, because a subclass may override it.
    plain = str.__str__(text)
    if plain.isascii():
        return plain
    try:
        plain.encode("utf-8")
    except UnicodeEncodeError:
        return plain.encode("utf-8", "backslashreplace").decode("utf-8")
    return plain


def size(text: str) -> int:
    """The length in UTF-8 bytes of valid text."""
    return len(text) if text.isascii() else len(text.encode("utf-8"))


def cap(text: str, limit: int) -> str:
    """Valid text of at most `limit` bytes. Longer text keeps its head and its tail."""
    text = str.__str__(text)
    # Cut before the costly steps: every character takes at least one byte.
    if len(text) > 2 * limit:
        dropped = len(text) - 2 * limit
        text = text[:limit] + text[-limit:]
    else:
        dropped = 0
    data = valid(text).encode("utf-8")
    if not dropped and len(data) <= limit:
        return data.decode("utf-8")
    mark = f"\n… {len(data) - limit + dropped} bytes left out …\n".encode()
    room = max(limit - len(mark), 0)
    tail = room // 2
    head = room - tail
    kept = data[:head] + mark[:limit] + (data[-tail:] if tail else b"")
    return kept.decode("utf-8", "ignore")


def describe(value: object, limit: int) -> str:
    """`repr(value)` within a limit. If it raises or returns junk, a plain description."""
    try:
        return cap(repr(value), limit)
    except MemoryError:
        raise
    except BaseException as error:
        return f"<{type_name(value)} object; its repr raised {type_name(error)}>"


def type_name(value: object) -> str:
    """The name of the real type of `value`, whatever its `__class__` says."""
    return valid(type.__getattribute__(type(value), "__name__"))[:200]
