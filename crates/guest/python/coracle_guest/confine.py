"""Loads `confine.so`, which makes a sandbox out of a fork of this process, and hands the launcher's plans to it.

What the plans say is written in `confinement.rs` of the sandbox crate, and how they are carried out in `native/confine.rs`
of the guest crate.

Trust boundary: runs before any foreign code, never after.
"""

from __future__ import annotations

import _imp

from coracle_guest import memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

LIBRARY = "/coracle/confine.so"

_SIGCHLD = 17
_CLONE_PIDFD = 0x1000
_UNWANTED = 1
_REHEARSE = 2
# A failed step is below this, a failed fork above.
_STEP = -0xFFFF


class StepFailed(Exception):
    """A call of a plan failed: `step` names it and `errno` is what the kernel said."""

    def __init__(self, step: str, errno: int) -> None:
        super().__init__(f"{step}: errno {errno}")
        self.step = step
        self.errno = errno


class _Spec:
    """All that loading a module by hand needs: `importlib` would cost more than the module."""

    name = "confine"
    origin = LIBRARY


class Confinement:
    """The way into a sandbox, laid out in memory."""

    def __init__(self, clone_flags: int, enter: dict, seal: dict, ready: bytes) -> None:
        self._library = _imp.create_dynamic(_Spec)
        self._names = [*enter["names"], *seal["names"]]
        # Held for as long as the process lives: the library writes to the plans where they are.
        self._memory = bytes.fromhex(enter["plan"]), bytes.fromhex(seal["plan"]), ready
        self._library.setup(clone_flags | _CLONE_PIDFD | _SIGCHLD, *self._memory)

    def share(self, file: int) -> None:
        """Put what is in memory now into `file`, an empty one in memory, and map that instead."""
        try:
            parts = memory.parts()
        except OSError:  # no /proc; nothing but the speed depends on it
            return
        self._library.share(file, parts)

    def serve(self, control: int, rehearse: Callable[[], None]) -> bool:
        """Serve the launcher. Comes back only in a child that has its workspace and has given up every right: whether
        somebody still wants it. `rehearse` is called before, in children that are to."""
        outcome = self._library.serve(control)
        if outcome == _REHEARSE:
            rehearse()
            outcome = self._library.seal()
        if outcome < _STEP:
            raise StepFailed(self._names[(-outcome >> 16) - 1], -outcome & 0xFFFF)
        return outcome != _UNWANTED
