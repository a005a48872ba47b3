"""Many byte streams over one: how the agent of a container talks to the host through its standard input and output.

A frame is a big-endian header (number of the sandbox, kind, length of the payload) and the payload. A stream may be
ahead of its reader by `WINDOW` bytes. `mux.rs` of the sandbox crate is the other side.
"""

from __future__ import annotations

import os
import struct

from coracle_guest import channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

HEADER = struct.Struct(">IBI")
COUNT = struct.Struct(">I")

WINDOW = 256 * 1024
"""The maximum number of bytes of a stream that its reader has not taken yet."""

MAX_PAYLOAD = WINDOW
_CHUNK = 1 << 16

# The kinds of frames from the host.
START, OPEN, BYTES, CLOSE, KILL, FORGET, TAKEN = range(1, 8)
# The kinds of frames from the agent. Data of stream N has the kind DATA + N.
HELLO, DATA, ENDED, EXITED, CAUSE, ROOM, NAMELESS, FAILED = 65, 66, 69, 70, 71, 72, 73, 74

# The streams of a sandbox.
CHANNEL, STDOUT, STDERR = range(3)


class Broken(Exception):
    """The host sent something that is not a frame."""


class Mux:
    """The two ends."""

    def __init__(self, source: int, target: int) -> None:
        self.source = source
        self._target = target
        self._read = bytearray()

    def send(self, slot: int, kind: int, payload: bytes = b"") -> None:
        """Send one frame. Waits until the host has room, which it has if it keeps to the windows."""
        channel.write(self._target, HEADER.pack(slot, kind, len(payload)) + payload)

    def tell(self, slot: int, kind: int, value: Any) -> None:
        """Send one frame of JSON."""
        self.send(slot, kind, channel.dumps(value).encode("utf-8", "replace"))

    def receive(self) -> Iterator[tuple[int, int, bytes]]:
        """Read once, and return the frames that are complete. Raises `EOFError` at the end."""
        data = os.read(self.source, _CHUNK)
        if not data:
            raise EOFError
        self._read += data
        while len(self._read) >= HEADER.size:
            slot, kind, length = HEADER.unpack_from(self._read)
            if length > MAX_PAYLOAD:
                raise Broken(f"a frame of {length} bytes")
            end = HEADER.size + length
            if len(self._read) < end:
                return
            payload = bytes(self._read[HEADER.size : end])
            del self._read[:end]
            yield slot, kind, payload
