"""Starts processes and reaps dead ones: this process is the init of its pid namespace, which adopts orphans."""

from __future__ import annotations

import gc
import os
import sys
from _signal import SIGPIPE, SIGXFSZ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence


def spawn(program: str, arguments: list[str], environment: dict[str, str], actions: Sequence[Any] = ()) -> int:
    """Start a program in a normal environment. Returns its pid."""
    return os.posix_spawn(
        program,
        arguments,
        environment,
        file_actions=actions,
        # In a separate group, because `kill 0` is meant for the program and not for us.
        setpgroup=0,
        # Python ignores these two signals, and we block signals between runs. A program expects neither.
        setsigdef=(SIGPIPE, SIGXFSZ),
        setsigmask=(),
    )


def signal_name(number: int) -> str:
    """The name of a signal."""
    from signal import Signals

    try:
        return Signals(number).name
    except ValueError:
        return str(number)


def reap() -> None:
    """Reap dead processes, without taking the exit status away from a process object that the code still holds."""
    try:
        if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return
        _let_owners_look()
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except OSError:
        # There are no children, or the call is not permitted here.
        pass


def _let_owners_look() -> None:
    """Call `poll` on process objects, which stores the status in them before we reap."""
    owners = tuple(
        getattr(sys.modules[module], "Popen")
        for module in ("subprocess", "multiprocessing.popen_fork")
        if hasattr(sys.modules.get(module), "Popen")
    )
    if not owners:
        return
    for candidate in gc.get_objects():
        # By the real type, because asking a hostile object for its class would run its code.
        if issubclass(type(candidate), owners):
            try:
                candidate.poll()
            except BaseException:
                pass
