"""Runs TypeScript in a child process that lives as long as the session: `coracle` itself, started as the runner.

This process starts it, passes the code on, and relays its calls to the host and the answers back.
"""

from __future__ import annotations

import os
import sys

from coracle_guest import children, failure, relay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from coracle_guest.calls import Link

RUNNER = "/coracle/bin/coracle"
_ARGUMENT = "__typescript"
_STDIN = 0

_FORGOTTEN = "variables of earlier TypeScript runs of this session are gone"
_FIELDS = ("ok", "exit_code", "result", "result_truncated", "error")


class TypeScript:
    """The user's TypeScript: started by the first run, and again by the first one after its end."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._pid = 0
        self._connection: relay.Connection | None = None
        self._runs = 0
        self._anew = False

    def run(self, code: str, variables: dict[str, Any], result_bytes: int) -> dict[str, Any]:
        """Run one program. Returns the fields of a `done` frame, without its `type` and `id`."""
        try:
            connection = self._connected()
        except OSError as error:
            return _failed(_unavailable(error), 127)
        self._runs += 1
        anew = {"restarted": True} if self._anew else {}
        self._anew = False
        request = {"type": "run", "code": code, "vars": variables, "result_bytes": result_bytes, "directory": _directory()}
        network = sys.modules.get("coracle_guest.network")
        if network is not None and network.is_on():
            request["network"] = {"proxy": os.environ[network.PROXIES[0]], "certificates": network.trusted()}
        opened = relay.Relay(self._link)
        answer: dict[str, Any] = {}
        try:
            connection.send(request)
            if opened.converse(connection, lambda frame: _is_done(frame, answer)):
                return {**answer, **anew}
            return {**self._buried(), **anew}
        except ValueError as error:
            return {**_failed(failure.plain("exception", str(error)), 1), **anew}
        finally:
            opened.close()

    def _connected(self) -> relay.Connection:
        if self._connection is not None:
            if self._lives():
                return self._connection
            self._forget()
        import _socket

        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            actions = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), _STDIN)]
            self._pid = children.spawn(RUNNER, ["coracle", _ARGUMENT], dict(os.environ), actions)
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._runs = 0
        self._connection = relay.Connection(ours.detach())
        return self._connection

    def _lives(self) -> bool:
        """Whether it is still alive since its last run."""
        assert self._connection is not None
        try:
            return not self._connection.ended and os.waitpid(self._pid, os.WNOHANG)[0] == 0
        except ChildProcessError:
            return False

    def _forget(self) -> None:
        assert self._connection is not None
        os.close(self._connection.fd)
        self._connection = None
        self._anew = True

    def _buried(self) -> dict[str, Any]:
        """The runner has ended during a run."""
        self._forget()
        try:
            status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        except ChildProcessError:
            status = 1
        error = failure.plain("exception", _ending(status))
        if self._runs > 1:
            error["hint"] = f"{error['hint']}; {_FORGOTTEN}" if "hint" in error else _FORGOTTEN
        return _failed(error, status if status > 0 else 128 - status)


def _ending(status: int) -> str:
    if status >= 0:
        return f"the TypeScript runner exited with status {status}"
    name = children.signal_name(-status)
    if name == "SIGSEGV":
        return f"the TypeScript runner was killed by signal {name}: the code is nested or recurses too deeply"
    return f"the TypeScript runner was killed by signal {name}"


def _unavailable(error: OSError) -> dict[str, Any]:
    told = failure.exception(error)
    if told["code"] == "exception":
        told["message"] = f"TypeScript cannot be started in this sandbox: {error.strerror}"
        told["hint"] = "the program `coracle` itself must be readable and executable for everybody; see `coracle doctor`"
        told["traceback"] = ""
    return told


def _is_done(frame: dict[str, Any], answer: dict[str, Any]) -> bool:
    if frame.get("type") != "done":
        return False
    answer.update((name, frame[name]) for name in _FIELDS if name in frame)
    return True


def _directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"


def _failed(error: dict[str, Any], status: int) -> dict[str, Any]:
    return {"ok": False, "exit_code": status, "error": error}
