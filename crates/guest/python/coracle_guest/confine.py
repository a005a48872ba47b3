"""Runs a plan: system calls that the launcher has written down, in order, in the process that they confine.

The plan is data (see `plan.rs` of the sandbox crate): which calls, with which arguments, and which bytes they point to.
This file knows how to make a system call and nothing of what the calls mean, so that the whole of the confinement can
be read in one place. A call that fails stops the plan: whoever runs it must end the process.

Trust boundary: runs before any foreign code, never after.
"""

from __future__ import annotations

import ctypes

# PyDLL keeps the interpreter lock: a child made by `clone` in here comes back holding it.
_libc = ctypes.PyDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = [ctypes.c_long] * 7


class StepFailed(Exception):
    """A call of the plan failed: `step` names it and `errno` is what the kernel said."""

    def __init__(self, step: str, errno: int) -> None:
        super().__init__(f"{step}: errno {errno}")
        self.step = step
        self.errno = errno


def syscall(number: int, *args: int) -> int:
    """One raw system call; minus errno if it fails."""
    value = _syscall(number, *args, *(0,) * (6 - len(args)))
    return -ctypes.get_errno() if value == -1 else value


class Plan:
    """The calls, resolved as far as they can be before the fork, since what is done here once is not done in each child."""

    def __init__(self, spec: dict) -> None:
        blob = bytes.fromhex(spec["blob"])
        self._memory = ctypes.create_string_buffer(blob, len(blob))
        self._base = ctypes.addressof(self._memory)
        for at, target in spec["pointers"]:
            ctypes.c_uint64.from_address(self._base + at).value = self._base + target
        self._fills = [(ctypes.c_uint64.from_address(self._base + at), parameter) for at, parameter in spec["fills"]]
        self._steps = [self._resolve(step) for step in spec["steps"]]

    def _resolve(self, step: dict) -> tuple:
        fixed, late = [], []
        for position, argument in enumerate(step["args"]):
            kind, value = argument
            if kind == "value":
                fixed.append(value)
            elif kind == "bytes":
                fixed.append(self._base + value)
            else:  # "result" of an earlier call, or "parameter" of this run
                fixed.append(0)
                late.append((position, kind == "result", value))
        fixed += [0] * (6 - len(fixed))
        return step["name"], step["number"], fixed, late, step.get("keep"), step.get("poke")

    def run(self, parameters: tuple[int, ...] = ()) -> None:
        """Makes the calls in order; raises `StepFailed` at the first that fails."""
        results: dict[int, int] = {}
        for word, parameter in self._fills:
            word.value = parameters[parameter]
        call = _syscall
        for name, number, fixed, late, keep, poke in self._steps:
            for position, is_result, index in late:
                fixed[position] = results[index] if is_result else parameters[index]
            value = call(number, *fixed)
            if value == -1:
                raise StepFailed(name, ctypes.get_errno())
            if keep is not None:
                results[keep] = value
            if poke is not None:
                ctypes.c_int32.from_address(self._base + poke).value = value
