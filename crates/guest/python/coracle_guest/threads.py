"""Waits for threads that user code has left running, as at the end of a Python program."""

from __future__ import annotations

import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.02


def wait() -> None:
    """Return when every non-daemon thread has ended, or is an idle worker of an executor.

    The end of a program would also end its executors, but a session may continue to use them.
    """
    try:
        if threading.active_count() == 1:
            return
        while True:
            busy = _running()
            if not busy:
                return
            plain = next((thread for thread in busy if thread not in _workers()), None)
            if plain is not None:
                plain.join()
            else:
                _wait_for_workers()
    except BaseException:
        # A thread that cannot be joined, or a signal handler that raised: the answer is more important.
        pass


def _running() -> list[threading.Thread]:
    """Threads to wait for, except idle workers."""
    own = threading.current_thread()
    return [
        thread
        for thread in threading.enumerate()
        if thread is not own and not thread.daemon and thread is not threading.main_thread() and not _is_idle(thread)
    ]


def _workers() -> Mapping[Any, Any]:
    """The threads of executors, each with its work queue."""
    executors = sys.modules.get("concurrent.futures.thread")
    return getattr(executors, "_threads_queues", {})


def _is_idle(thread: threading.Thread) -> bool:
    queue = _workers().get(thread)
    if queue is None or not queue.empty():
        return False
    # Waiting for work is a call to C: the innermost Python frame of an idle worker is its main loop.
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code.co_name == "_worker"


def _wait_for_workers() -> None:
    pause = _FIRST_PAUSE
    # Idle twice in a row: once may be the moment between taking work and starting it.
    idle = 0
    while idle < 2:
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
        idle = 0 if _running() else idle + 1
