"""The `sys.stdin`, `sys.stdout` and `sys.stderr` of user code, which are restored between runs.

Code may replace or close the streams, and even close the descriptors below them. That affects only its own run: the
next run of a session starts with working streams.
"""

from __future__ import annotations

import io
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO


COPIES = {1: 8, 2: 9}
"""Copies of standard output and standard error that the code does not know about, created with the process
(`native/confine.rs`). Programs that the code starts do not inherit them."""


class Streams:
    """The three standard streams, and what is needed to recreate them."""

    def __init__(self) -> None:
        self._stdout = _writer(1, "<stdout>")
        self._stderr = _writer(2, "<stderr>")
        self._stdin = sys.stdin

    def prepare(self) -> None:
        """Give the next run working streams."""
        for fd, copy in COPIES.items():
            if not _same_file(fd, copy):
                try:
                    posix.dup2(copy, fd)
                except OSError:
                    # The code has closed our copy too. Its output is lost then, but the answer is not.
                    pass
        if self._stdout.closed:
            self._stdout = _writer(1, "<stdout>")
        if self._stderr.closed:
            self._stderr = _writer(2, "<stderr>")
        if self._stdin is None or self._stdin.closed:
            self._stdin = _empty_input()
        self.install()

    def install(self) -> None:
        """Make them the standard streams."""
        sys.stdin = sys.__stdin__ = self._stdin
        sys.stdout = sys.__stdout__ = self._stdout
        sys.stderr = sys.__stderr__ = self._stderr

    def flush(self) -> None:
        """Flush all output, whatever has happened to the streams."""
        ours = (self._stdout, self._stderr)
        theirs = (getattr(sys, "stdout", None), getattr(sys, "stderr", None))
        # By identity, because comparing could run user code.
        untouched = theirs[0] is ours[0] and theirs[1] is ours[1]
        for stream in ours if untouched else (*theirs, *ours):
            try:
                stream.flush()
            except BaseException:
                # Closed, replaced by something else, or without a reader: nothing more can be done.
                pass


def _writer(fd: int, name: str) -> TextIO:
    """A text stream that writes at each line end, so that output is visible while the code runs."""
    # closefd=False: `sys.stdout.close()` closes the stream and not the pipe.
    raw = io.FileIO(fd, "w", closefd=False)
    raw.name = name
    stream = io.TextIOWrapper(
        io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", newline="\n", line_buffering=True
    )
    stream.mode = "w"
    return stream


def _empty_input() -> TextIO:
    return io.TextIOWrapper(io.BufferedReader(io.FileIO("/dev/null")), encoding="utf-8")


def _same_file(fd: int, copy: int) -> bool:
    try:
        here, there = posix.fstat(fd), posix.fstat(copy)
    except OSError:
        return False
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
