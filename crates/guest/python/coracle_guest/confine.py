"""Loads `confine.so`, which makes a sandbox out of a fork of this process, and hands the launcher's plans to it.

What the plans say is written in `confinement.rs` of the sandbox crate, and how they are carried out in `native/confine.rs`
of the guest crate.

Trust boundary: runs before any foreign code, never after.
"""

from __future__ import annotations

import os

import _imp

LIBRARY = "/coracle/confine.so"

_SIGCHLD = 17
_CLONE_PIDFD = 0x1000
_UNWANTED = 1
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
        self._names = enter["names"], seal["names"]
        # Held for as long as the process lives: the library writes to the plans where they are.
        self._memory = bytes.fromhex(enter["plan"]), bytes.fromhex(seal["plan"]), ready
        self._library.setup(clone_flags | _CLONE_PIDFD | _SIGCHLD, *self._memory)

    def fork(self, descriptors: list[int]) -> tuple[int, int]:
        """Forks: in the zygote the child's process id and handle, in the child, once in its namespaces, zeroes.

        `StepFailed` is raised in the child, `OSError` in the zygote.
        """
        pid = self._library.fork(*descriptors)
        if pid > 0:
            return pid, self._library.handle()
        self._check(pid, self._names[0])
        if pid < 0:
            raise OSError(-pid, os.strerror(-pid))
        return 0, 0

    def seal(self) -> bool:
        """In a child: waits for its workspace and gives up every right. False if nobody wants it any more."""
        outcome = self._library.seal()
        self._check(outcome, self._names[1])
        return outcome != _UNWANTED

    @staticmethod
    def _check(outcome: int, names: list[str]) -> None:
        if outcome < _STEP:
            raise StepFailed(names[(-outcome >> 16) - 1], -outcome & 0xFFFF)
