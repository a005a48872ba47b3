"""Runs a program of the host's choice, whose input comes from the host over the channel.

Its output and errors are the streams of the sandbox. The sandbox ends with the program.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading

from coracle_guest import calls, children

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

METHOD = "read_input"
"""The call that returns more of the input, as base64, or nothing at its end."""

NOT_FOUND = 127
NOT_STARTED = 126


def run(arguments: list[str], environment: dict[str, str], directory: str) -> NoReturn:
    """Run a program to its end, and end this process with its status."""
    try:
        os.chdir(directory)
    except OSError as error:
        _give_up(NOT_STARTED, f"cannot enter {directory}: {error.strerror}: is it in a folder that the sandbox may use?")
    complete = {**os.environ, **environment}
    program = shutil.which(arguments[0], path=complete.get("PATH"))
    if program is None:
        _give_up(NOT_FOUND, f"cannot find {arguments[0]}: is it in a folder that the sandbox may read?")
    reader, writer = os.pipe()
    try:
        pid = children.spawn(program, arguments, complete, [(os.POSIX_SPAWN_DUP2, reader, 0)])
    except OSError as error:
        _give_up(NOT_STARTED, f"cannot start {program}: {error.strerror}")
    os.close(reader)
    threading.Thread(target=_end_with, args=(pid,), daemon=True).start()
    _pass_on(writer)
    os.close(writer)
    while True:
        # `_end_with` ends the process.
        threading.Event().wait()


def _end_with(pid: int) -> None:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os._exit(code if code >= 0 else 128 - code)


def _pass_on(writer: int) -> None:
    from base64 import b64decode

    while True:
        try:
            piece = b64decode(calls.call(METHOD, {}))
        except calls.CallError:
            return
        if not piece:
            return
        while piece:
            try:
                piece = piece[os.write(writer, piece) :]
            except OSError:
                # The program no longer reads.
                return


def _give_up(status: int, reason: str) -> NoReturn:
    sys.stderr.write(f"error: {reason}\n")
    sys.stderr.flush()
    os._exit(status)
