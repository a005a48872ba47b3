"""Loads `confine.so`, which turns a fork of this process into a sandbox, and passes the launcher's plans to it.

The plans are defined in `confinement.rs` of the sandbox crate, and carried out by `native/confine.rs` of the guest
crate.

Trust boundary: runs before any untrusted code, and never after.
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
# Results of a failed step are below this, and of a failed fork above.
_STEP = -0xFFFF


class StepFailed(Exception):
    """A call of a plan failed: `step` is its name, and `errno` the kernel's error."""

    def __init__(self, step: str, errno: int) -> None:
        super().__init__(f"{step}: errno {errno}")
        self.step = step
        self.errno = errno


class _Spec:
    """The minimal spec for loading a module: `importlib` would cost more than the module."""

    name = "confine"
    origin = LIBRARY


class Confinement:
    """The plans of the confinement, in memory."""

    def __init__(self, clone_flags: int, enter: dict, seal: dict, ready: bytes) -> None:
        self._library = _imp.create_dynamic(_Spec)
        self._names = [*enter["names"], *seal["names"]]
        # Held as long as the process lives, because the library writes to the plans in place.
        self._memory = bytes.fromhex(enter["plan"]), bytes.fromhex(seal["plan"]), ready
        self._library.setup(clone_flags | _CLONE_PIDFD | _SIGCHLD, *self._memory)

    def share(self, file: int) -> None:
        """Move the current memory to `file`, an empty memory file, and map that instead."""
        try:
            parts = memory.parts()
        except OSError:  # no /proc; only speed depends on it
            return
        self._library.share(file, parts)

    def serve(self, control: int, rehearse: Callable[[], None]) -> bool:
        """Serve the launcher. Returns only in a child that has its workspace and has dropped all privileges: whether it
        is still needed. `rehearse` is called before, in children that do a trial run."""
        outcome = self._library.serve(control)
        if outcome == _REHEARSE:
            rehearse()
            outcome = self._library.seal()
        if outcome < _STEP:
            raise StepFailed(self._names[(-outcome >> 16) - 1], -outcome & 0xFFFF)
        return outcome != _UNWANTED
