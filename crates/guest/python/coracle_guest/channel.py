"""Frames between guest and host: a 4-byte big-endian length, then that many bytes of UTF-8 JSON, one object.

JSON is handled by the accelerator of the standard library without importing `json`, which would import `re`: the two
would slow down a cold start. Without the accelerator, `json` itself does the same.
"""

from __future__ import annotations

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

MAX_FRAME = 8 * 1024 * 1024
"""The maximum size of a payload in bytes, in either direction."""

_HEADER = 4
_CHUNK = 1 << 16

# The part of an incomplete frame that was read. It outlives `receive`, because a signal handler of the user's code may
# raise in the middle of it, and the rest of the frame must be appended to it.
_partial: dict[int, bytearray] = {}


class ProtocolError(Exception):
    """The other side sent something that is not a frame."""


def frame(obj: dict[str, Any]) -> bytes:
    """Encode one frame. Raises `ValueError`/`TypeError` if it is not JSON or too large."""
    payload = dumps(obj).encode("utf-8", "replace")
    if len(payload) > MAX_FRAME:
        raise ValueError(f"a frame of {len(payload)} bytes exceeds the maximum of {MAX_FRAME} bytes")
    return len(payload).to_bytes(_HEADER, "big") + payload


def send(fd: int, obj: dict[str, Any]) -> None:
    """Send one frame. Raises `ValueError`/`TypeError` like `frame`, before sending anything."""
    write(fd, frame(obj))


def write(fd: int, data: bytes) -> None:
    """Write all data."""
    view = memoryview(data)
    while view:
        view = view[posix.write(fd, view) :]


class WouldBlock(Exception):
    """The frame is not complete yet. The part that was read has been kept."""


def receive(fd: int, wait: bool = True) -> dict[str, Any] | None:
    """Read one frame, or `None` when the other side has closed. Raises `ProtocolError` for an invalid frame.

    Without `wait`, raises `WouldBlock` if the frame is incomplete. Never reads anything after the frame.
    """
    buffer = _partial.setdefault(fd, bytearray())
    if not _fill(fd, buffer, _HEADER, wait):
        return None
    length = int.from_bytes(buffer[:_HEADER], "big")
    if not 1 <= length <= MAX_FRAME:
        raise ProtocolError(f"a frame of {length} bytes")
    if not _fill(fd, buffer, _HEADER + length, wait):
        return None
    payload = bytes(buffer[_HEADER:])
    del _partial[fd]
    return _parse(payload)


def receive_at_once(fd: int) -> dict[str, Any] | None:
    """The next frame if a single read returns all of it, or else `None`, and `receive` continues from there.

    Only where no second frame can arrive before the first is answered.
    """
    try:
        data = posix.read(fd, _CHUNK)
    except OSError:  # `receive` gets the same error again
        return None
    if int.from_bytes(data[:_HEADER], "big") == len(data) - _HEADER:
        return _parse(data[_HEADER:])
    _partial[fd] = bytearray(data)
    return None


def _parse(payload: bytes) -> dict[str, Any]:
    try:
        obj = loads(payload.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"no JSON: {error}") from None
    if not isinstance(obj, dict) or not isinstance(obj.get("type"), str):
        raise ProtocolError("no object with a type")
    return obj


def _fill(fd: int, buffer: bytearray, size: int, wait: bool) -> bool:
    """Read until `buffer` has exactly `size` bytes. Returns false if the stream ends before."""
    while len(buffer) < size:
        if not wait and not _is_readable(fd):
            raise WouldBlock
        # posix.read restarts after EINTR, unless a signal handler raises.
        piece = posix.read(fd, min(size - len(buffer), _CHUNK))
        if not piece:
            return False
        buffer += piece
    return True


def _is_readable(fd: int) -> bool:
    import select

    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _accelerated() -> tuple[Callable[[Any], str], Callable[[str], Any]]:
    """JSON with the C accelerator of the `json` package. Raises if it is missing or different."""
    import _json

    class Rules:
        strict = True
        object_hook = None
        object_pairs_hook = None
        parse_float = float
        parse_int = int
        parse_constant = staticmethod(_no_constant)

    def refuse(value: object) -> Any:
        raise TypeError(f"a {type(value).__name__} is not JSON")

    scan = _json.make_scanner(Rules())
    encode = _json.make_encoder(None, refuse, _json.encode_basestring, None, ":", ",", False, False, False)

    def fast_dumps(value: Any) -> str:
        return "".join(encode(value, 0))

    def fast_loads(text: str) -> Any:
        text = text.strip(" \t\r\n")
        try:
            value, end = scan(text, 0)
        except StopIteration:
            raise ValueError("no JSON value") from None
        if end != len(text):
            raise ValueError("text after the JSON value")
        return value

    if fast_loads(fast_dumps({"a": [1, "é", None]})) != {"a": [1, "é", None]}:
        raise TypeError("the accelerator is not the expected one")
    return fast_dumps, fast_loads


def _plain() -> tuple[Callable[[Any], str], Callable[[str], Any]]:
    import json

    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
    return encoder.encode, json.JSONDecoder(parse_constant=_no_constant).decode


try:
    dumps, loads = _accelerated()
except (ImportError, AttributeError, TypeError, ValueError):
    dumps, loads = _plain()
