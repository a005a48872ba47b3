"""The main loop of a sandboxed process: receive a run, carry it out, answer, until the host disconnects.

Here and in everything that a first run needs, `posix` is used instead of `os`, which would slow down a cold start.
"""

from __future__ import annotations

import posix
import sys
from _signal import SIG_BLOCK, SIG_SETMASK, pthread_sigmask

from coracle_guest import calls, channel, interpreter, reserve, sources, streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, NoReturn

    from coracle_guest import typescript

_NO_MEMORY = {
    "code": "memory",
    "message": "MemoryError",
    "traceback": "",
    "hint": "a limit of this sandbox: memory; delete variables of earlier runs, or raise the memory limit",
}

_FRAME_ROOM = 64 * 1024
"""The size of a `done` frame besides its result."""


PROTOCOL = 1


def ready() -> dict[str, Any]:
    """The frame that reports that a sandbox is waiting."""
    return {"type": "ready", "protocol": PROTOCOL, "runtime": "python {}.{}.{}".format(*sys.version_info[:3])}


def warm(output: streams.Streams | None = None) -> None:
    """Do a trial run, so that the code and data of a first run are in memory. It leaves nothing behind."""
    reader, writer = posix.pipe()
    mask = pthread_sigmask(SIG_BLOCK, ())
    try:
        calls.Link(writer).send({"type": "run", "id": 1, "language": "python", "code": _SAMPLE, "result_bytes": 1024})
        request = calls.Link(reader).first_request()
        if _is_run(request):
            # Without a reserve: memory that is released here would be reused, and touched then.
            scratch = interpreter.Interpreter(output, reserve.Reserve(0))
            answer = scratch.run(request["code"], {}, request["result_bytes"])
            calls.Link(writer).send({"type": "done", "id": 1, **answer})
            channel.receive(reader)
        sources.forget()
    finally:
        pthread_sigmask(SIG_SETMASK, mask)
        posix.close(reader)
        posix.close(writer)


_SAMPLE = """
def square(number):
    return number * number
values = {"squares": [square(number) for number in range(3)], "mean": 1.5, "text": f"{3:>4}", "none": None}
values
"""


def serve(fd: int) -> NoReturn:
    """Serve the host over the connected stream socket `fd`. The process ends with the stream."""
    agent = Agent(fd)
    agent.adopt()
    agent.serve()


class Agent:
    """The state of the process: the channel, the streams, a reserve, and the user's interpreter.

    Only descriptor numbers are kept, so it can be created in the zygote, once for all its children. Each child then
    adopts the actual descriptors.
    """

    def __init__(self, fd: int, idle: Callable[[], object] | None = None) -> None:
        self._fd = fd
        # Waits until there is something to read, and touches little memory meanwhile: most processes end right after
        # their first answer.
        self._idle = idle
        self._link = calls.attach(fd)
        self._streams = streams.Streams()
        self._reserve = reserve.Reserve()
        self._python = interpreter.Interpreter(self._streams, self._reserve)
        self._python.install()
        self._typescript: typescript.TypeScript | None = None
        self._is_new = True
        self._streams.install()

    def adopt(self) -> None:
        """Do what a child of the zygote need not, in a process that was started otherwise: create descriptors, and note
        that this is another process."""
        self._link.adopt()
        self._python.adopt()
        posix.set_inheritable(self._fd, False)
        for source, target in ((1, streams.COPIES[1]), (2, streams.COPIES[2]), *((2, fd) for fd in reserve.DESCRIPTORS)):
            posix.dup2(source, target, inheritable=False)

    def rehearse(self) -> None:
        """Touch the memory of a first run in advance."""
        warm(self._streams)

    def serve(self) -> NoReturn:
        """Carry out runs until the host disconnects."""
        try:
            request = self._link.first_request()
            while True:
                answer = self.run(request)
                self._link.send({"type": "done", "id": request["id"], **answer})
                if self._idle is not None:
                    self._idle()
                request = self._link.next_request()
                self.tidy()
        except BrokenPipeError:
            # The host is gone, so there is no one to tell.
            posix._exit(0)
        except BaseException:
            posix._exit(calls.PROTOCOL_STATUS)

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out one run. An invalid request ends the process."""
        if not _is_run(request):
            posix._exit(calls.PROTOCOL_STATUS)
        if self._is_new:
            # Nothing can be broken yet.
            self._is_new = False
        else:
            self._streams.prepare()
            self._reserve.take()
        code = request["code"]
        variables = request.get("vars") or {}
        try:
            if request["language"] == "bash":
                from coracle_guest import shell

                return shell.run(code, variables, self._link)
            limit = min(request["result_bytes"], channel.MAX_FRAME - _FRAME_ROOM)
            if request["language"] == "typescript":
                if self._typescript is None:
                    from coracle_guest import typescript

                    self._typescript = typescript.TypeScript(self._link)
                return self._typescript.run(code, variables, limit)
            return self._python.run(code, variables, limit)
        except MemoryError:
            # Earlier runs of the session hold so much memory that there is none left for us.
            self._reserve.give_up()
            return {"ok": False, "exit_code": 1, "error": _NO_MEMORY}
        finally:
            # Last, because encoding a result may also run user code.
            self._streams.flush()

    def tidy(self) -> None:
        """Do what need not delay an answer, and may fail if the code has reached a limit."""
        try:
            from coracle_guest import children

            children.reap()
        except Exception:
            pass


def _is_run(request: dict[str, Any]) -> bool:
    return (
        request["type"] == "run"
        and type(request.get("id")) is int
        and request.get("language") in ("python", "bash", "typescript")
        and isinstance(request.get("code"), str)
        and isinstance(request.get("vars") or {}, dict)
        and type(request.get("result_bytes")) is int
    )
