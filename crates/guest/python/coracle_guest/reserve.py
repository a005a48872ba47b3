"""A little of what the code may use up, kept back so that there is always an answer.

To explain a failure, modules must be read and text be made. If the failure is that no memory or no descriptors are
left, that takes some of both.
"""

from __future__ import annotations

import posix

DESCRIPTORS = (10, 11, 12)
"""Copies of standard error that stand where others are to come, made when the process is born (`native/confine.rs`)."""

_MEMORY = 4 * 1024 * 1024


class Reserve:
    """Taken before a run, given up when it fails."""

    def __init__(self, memory: int = _MEMORY) -> None:
        self._descriptors = list(DESCRIPTORS)
        # Zeroed pages that are never touched (a bytearray would touch them): address space, not memory in use.
        self._memory = bytes(memory)

    def take(self) -> None:
        """Set aside what is missing, as far as it can be had."""
        try:
            self._memory = self._memory or bytes(_MEMORY)
            while len(self._descriptors) < len(DESCRIPTORS):
                self._descriptors.append(posix.dup(2))
        except (OSError, MemoryError):
            # The code of an earlier run holds all there is.
            pass

    def give_up(self) -> None:
        """Make it all available."""
        self._memory = b""
        while self._descriptors:
            try:
                posix.close(self._descriptors.pop())
            except OSError:
                # The code has closed what it did not open.
                pass
