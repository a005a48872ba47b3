"""A reserve of resources that the code may use up, so that there is always an answer.

Explaining a failure needs memory and descriptors, to load modules and to format text, even if the failure is that none
are left.
"""

from __future__ import annotations

import posix

DESCRIPTORS = (10, 11, 12)
"""Copies of standard error that reserve descriptors, created with the process (`native/confine.rs`)."""

_MEMORY = 4 * 1024 * 1024


class Reserve:
    """Taken before a run, and released when it fails."""

    def __init__(self, memory: int = _MEMORY) -> None:
        self._descriptors = list(DESCRIPTORS)
        # Zeroed pages that are never touched (a bytearray would touch them): address space, and not memory in use.
        self._memory = bytes(memory)

    def take(self) -> None:
        """Restore the reserve, as far as possible."""
        try:
            self._memory = self._memory or bytes(_MEMORY)
            while len(self._descriptors) < len(DESCRIPTORS):
                self._descriptors.append(posix.dup(2))
        except (OSError, MemoryError):
            # The code of an earlier run holds everything.
            pass

    def give_up(self) -> None:
        """Release the reserve."""
        self._memory = b""
        while self._descriptors:
            try:
                posix.close(self._descriptors.pop())
            except OSError:
                # The code has closed descriptors that it did not open.
                pass
