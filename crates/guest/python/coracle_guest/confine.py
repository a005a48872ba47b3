"""Hands the plans of the launcher to `confine.so`, which makes a sandbox out of a fork of this process.

What the plans say is written in `confinement.rs` of the sandbox crate, and how they are carried out in `native/confine.rs`
of the guest crate. Here they are only laid out in memory, once, before any fork.

Trust boundary: runs before any foreign code, never after.
"""

from __future__ import annotations

import ctypes
import os

LIBRARY = "/coracle/confine.so"

_SIGCHLD = 17
_CLONE_PIDFD = 0x1000
_UNWANTED = 1


class StepFailed(Exception):
    """A call of a plan failed: `step` names it and `errno` is what the kernel said."""

    def __init__(self, step: str, errno: int) -> None:
        super().__init__(f"{step}: errno {errno}")
        self.step = step
        self.errno = errno


class _Plan(ctypes.Structure):
    _fields_ = [
        ("steps", ctypes.c_void_p),
        ("step_count", ctypes.c_uint64),
        ("bytes", ctypes.c_void_p),
        ("pointers", ctypes.c_void_p),
        ("pointer_count", ctypes.c_uint64),
        ("fills", ctypes.c_void_p),
        ("fill_count", ctypes.c_uint64),
    ]


class _Spawn(ctypes.Structure):
    _fields_ = [
        ("flags", ctypes.c_uint64),
        ("channel", ctypes.c_int32),
        ("stdout", ctypes.c_int32),
        ("stderr", ctypes.c_int32),
        ("binding", ctypes.c_int32),
        ("artifacts", ctypes.c_int32),
        ("pidfd", ctypes.c_int32),
        ("enter", _Plan),
        ("seal", _Plan),
        ("ready", ctypes.c_char_p),
        ("ready_length", ctypes.c_uint64),
    ]


class Confinement:
    """The way into a sandbox, laid out in memory."""

    def __init__(self, clone_flags: int, enter: dict, seal: dict, ready: bytes) -> None:
        # PyDLL keeps the interpreter lock: a child comes back holding it.
        library = ctypes.PyDLL(LIBRARY)
        self._fork = library.coracle_fork
        self._fork.restype = ctypes.c_int64
        self._seal = library.coracle_seal
        self._seal.restype = ctypes.c_int64
        self._memory: list[object] = []
        self._names = enter["names"], seal["names"]
        self._spawn = _Spawn(
            flags=clone_flags | _CLONE_PIDFD | _SIGCHLD,
            enter=self._plan(enter),
            seal=self._plan(seal),
            ready=ready,
            ready_length=len(ready),
        )
        self._in_child = ctypes.c_int32(0)
        self._arguments = ctypes.byref(self._spawn), ctypes.byref(self._in_child)

    def _plan(self, spec: dict) -> _Plan:
        def laid_out(name: str) -> int:
            data = bytes.fromhex(spec[name])
            memory = ctypes.create_string_buffer(data, max(len(data), 1))
            self._memory.append(memory)
            return ctypes.addressof(memory)

        return _Plan(
            steps=laid_out("steps"),
            step_count=len(spec["names"]),
            bytes=laid_out("bytes"),
            pointers=laid_out("pointers"),
            pointer_count=len(spec["pointers"]) // 32,
            fills=laid_out("fills"),
            fill_count=len(spec["fills"]) // 32,
        )

    def fork(self, descriptors: list[int]) -> tuple[int, int]:
        """Forks: in the zygote the child's process id and handle, in the child, once in its namespaces, zeroes.

        `StepFailed` is raised in the child, `OSError` in the zygote.
        """
        spawn = self._spawn
        spawn.channel, spawn.stdout, spawn.stderr, spawn.binding, spawn.artifacts = descriptors
        outcome = self._fork(*self._arguments)
        if self._in_child.value:
            self._check(outcome, self._names[0])
            return 0, 0
        if outcome < 0:
            raise OSError(-outcome, os.strerror(-outcome))
        return outcome, spawn.pidfd

    def seal(self) -> bool:
        """In a child: waits for its workspace and gives up every right. False if nobody wants it any more."""
        outcome = self._seal(self._arguments[0])
        self._check(outcome, self._names[1])
        return outcome != _UNWANTED

    @staticmethod
    def _check(outcome: int, names: list[str]) -> None:
        if outcome < 0:
            raise StepFailed(names[(-outcome >> 16) - 1], -outcome & 0xFFFF)
