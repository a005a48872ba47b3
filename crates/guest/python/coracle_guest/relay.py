"""Lets child processes share the channel: the TypeScript runner, and the command `tool` of bash.

While a child runs, the agent's only thread is here. It waits for the end of the child, for requests of children, and
for answers of the host, all at once, and none of them blocks another.

There are two kinds of children. The runner has a separate socket, with the same frames as between guest and host. A
`tool` may be started by anything below a shell, so it cannot inherit a socket: it writes its request to a file, creates
a FIFO for the answer, and writes its name to another FIFO, whose folder is in the environment.
"""

from __future__ import annotations

import os
import select
from errno import EAGAIN, ENXIO

from coracle_guest import channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from coracle_guest.calls import Link

VARIABLE = "CORACLE_DOOR"
"""The environment variable with the folder of the relay."""

_BELL = "bell"
_NAME_BYTES = 64
_CHUNK = 1 << 16
_MAX_WAITING = 1024
"""The maximum number of concurrent calls of children."""

_GONE = {"type": "reply", "ok": False, "error": {"code": "cancelled", "message": "the run is over", "retryable": False}}


class Relay:
    """Serves children while one of them runs."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._poll = select.poll()
        self._asked: dict[int, _Asked] = {}
        self._answered: list[tuple[int, dict[str, Any]]] = []
        self._writing: dict[int, bytearray] = {}
        self._bell = -1
        self._names = b""
        self._folder = ""
        self._child: Connection | None = None
        self._listening = False
        self._others_read = False
        # Threads of the user may read the channel too, and deliver frames for us.
        self._awake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._awake, select.POLLIN)

    def open_folder(self, folder: str) -> None:
        """Accept programs below a shell. Raises `OSError` if the folder cannot be created."""
        os.makedirs(folder, mode=0o700, exist_ok=True)
        bell = os.path.join(folder, _BELL)
        if not os.path.exists(bell):
            os.mkfifo(bell, 0o600)
        # For reading and writing, so that it never reaches its end.
        self._bell = os.open(bell, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._folder = folder
        self._poll.register(self._bell, select.POLLIN)

    def wait(self, pid: int) -> int:
        """Serve until this child ends. Returns its exit status, or minus the signal."""
        try:
            ended = os.pidfd_open(pid)
        except OSError:
            # No descriptor is left: requests are not served, but the child is still waited for.
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self._poll.register(ended, select.POLLIN)
        try:
            while not self._turn(ended):
                pass
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        finally:
            self._poll.unregister(ended)
            os.close(ended)

    def converse(self, child: Connection, finished: Callable[[dict[str, Any]], bool]) -> bool:
        """Serve until this child sends a frame for which `finished` is true. Returns false if it disconnects before."""
        self._child = child
        self._watch_child()
        while True:
            for frame in child.frames():
                if frame.get("type") == "call":
                    self._ask(_Asked(child, frame.get("id"), ""), frame)
                elif finished(frame):
                    return True
            if child.ended:
                return False
            self._turn(-1)

    def close(self) -> None:
        """Answer all pending requests with an error."""
        for number, asked in list(self._asked.items()):
            self._link.abandon(number)
            if asked.connection is None:
                self._begin_answer(asked.name, _GONE)
        for fd in list(self._writing):
            self._write(fd)
            self._stop_writing(fd)
        for fd in (self._bell, self._awake):
            if fd >= 0:
                os.close(fd)

    def _turn(self, ended: int) -> bool:
        """Wait for an event and handle it. Returns whether the child has ended."""
        self._listen()
        over = False
        for fd, event in self._poll.poll():
            if fd == ended:
                over = True
            elif fd == self._awake:
                os.eventfd_read(fd)
                self._others_read = False
            elif fd == self._bell:
                self._hear_bell()
            elif fd in self._writing:
                self._write(fd)
            elif self._child is not None and fd == self._child.fd:
                self._serve_child(event)
            elif fd == self._link.fd:
                if not self._link.take_one():
                    # Another thread is reading. We are notified when it has a frame for us, or when it stops reading.
                    self._poll.unregister(fd)
                    self._listening, self._others_read = False, True
        while self._answered:
            number, frame = self._answered.pop(0)
            self._link.abandon(number)
            self._answer(self._asked.pop(number), frame)
        return over

    def _listen(self) -> None:
        if not self._listening and not self._others_read:
            self._poll.register(self._link.fd, select.POLLIN)
            self._listening = True

    def _hear_bell(self) -> None:
        try:
            self._names += os.read(self._bell, _CHUNK)
        except BlockingIOError:
            return
        *names, self._names = self._names.split(b"\n")
        if len(self._names) > _NAME_BYTES:
            self._names = b""
        for raw in names:
            name = raw.decode("ascii", "replace")
            if 0 < len(name) <= _NAME_BYTES and all(letter in "0123456789abcdef-" for letter in name):
                self._hear_tool(name)

    def _hear_tool(self, name: str) -> None:
        path = os.path.join(self._folder, name)
        try:
            fd = os.open(path + ".ask", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            with open(fd, "rb") as file:
                data = file.read(channel.MAX_FRAME + 1)
            os.remove(path + ".ask")
            frame = channel.loads(data.decode("utf-8"))
        except (OSError, ValueError, RecursionError):
            frame = None
        asked = _Asked(None, 0, name)
        if not isinstance(frame, dict):
            self._answer(asked, _failed("invalid_request", "the request cannot be read"))
        else:
            self._ask(asked, frame)

    def _ask(self, asked: _Asked, frame: dict[str, Any]) -> None:
        method, params = frame.get("method"), frame.get("params")
        if type(asked.id) is not int or not isinstance(method, str) or not isinstance(params, dict):
            self._answer(asked, _failed("invalid_request", "the request is not valid"))
            return
        if len(self._asked) >= _MAX_WAITING:
            self._answer(asked, _failed("calls", f"more than {_MAX_WAITING} calls at once", True))
            return
        try:
            number = self._link.forward(method, params, self._deliver)
        except (ValueError, TypeError) as error:
            self._answer(asked, _failed("invalid_request", str(error)))
            return
        self._asked[number] = asked
        self._others_read = False

    def _deliver(self, number: int, frame: dict[str, Any] | None) -> None:
        """Called by the thread that has read the frame. Without a frame: check again whether to read."""
        if frame is not None:
            self._answered.append((number, frame))
        try:
            os.eventfd_write(self._awake, 1)
        except OSError:
            pass

    def _answer(self, asked: _Asked, frame: dict[str, Any]) -> None:
        if asked.connection is None:
            self._begin_answer(asked.name, frame)
        else:
            asked.connection.send({**frame, "id": asked.id})
            self._watch_child()

    def _begin_answer(self, name: str, frame: dict[str, Any]) -> None:
        path = os.path.join(self._folder, name) + ".answer"
        try:
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            os.remove(path)
        except OSError as error:
            # There is no reader: the program was killed.
            if error.errno == ENXIO:
                _remove(path)
            return
        self._writing[fd] = bytearray(channel.dumps(frame).encode("utf-8", "replace"))
        self._poll.register(fd, select.POLLOUT)
        self._write(fd)

    def _write(self, fd: int) -> None:
        data = self._writing[fd]
        try:
            while data:
                del data[: os.write(fd, data[:_CHUNK])]
        except BlockingIOError:
            return
        except OSError:
            pass
        self._stop_writing(fd)

    def _stop_writing(self, fd: int) -> None:
        if self._writing.pop(fd, None) is not None:
            self._poll.unregister(fd)
            os.close(fd)

    def _serve_child(self, event: int) -> None:
        child = self._child
        assert child is not None
        if event & select.POLLOUT:
            child.push()
        if event & (select.POLLIN | select.POLLHUP | select.POLLERR):
            child.pull()
        self._watch_child()

    def _watch_child(self) -> None:
        child = self._child
        assert child is not None
        if child.ended:
            try:
                self._poll.unregister(child.fd)
            except KeyError:
                pass
        else:
            self._poll.register(child.fd, select.POLLIN | (select.POLLOUT if child.outgoing else 0))


class _Asked:
    """The sender of a request: a connection and its call number, or the name of a `tool`."""

    __slots__ = ("connection", "id", "name")

    def __init__(self, connection: Connection | None, number: Any, name: str) -> None:
        self.connection = connection
        self.id = number
        self.name = name


class Connection:
    """A non-blocking socket to a child."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.outgoing = bytearray()
        self.ended = False
        self._incoming = bytearray()

    def send(self, frame: dict[str, Any]) -> None:
        """Send a frame, now or when there is room."""
        self.outgoing += channel.frame(frame)
        self.push()

    def push(self) -> None:
        """Send as much as possible without blocking."""
        try:
            while self.outgoing:
                del self.outgoing[: os.write(self.fd, self.outgoing[:_CHUNK])]
        except OSError as error:
            if error.errno != EAGAIN:
                self.ended = True

    def pull(self) -> None:
        """Read what is available."""
        try:
            piece = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        self._incoming += piece
        self.ended = not piece

    def frames(self) -> list[dict[str, Any]]:
        """The frames that are complete. An invalid frame ends the connection."""
        found: list[dict[str, Any]] = []
        while len(self._incoming) >= 4:
            length = int.from_bytes(self._incoming[:4], "big")
            if not 1 <= length <= channel.MAX_FRAME:
                self.ended = True
                break
            if len(self._incoming) < 4 + length:
                break
            payload = bytes(self._incoming[4 : 4 + length])
            del self._incoming[: 4 + length]
            try:
                frame = channel.loads(payload.decode("utf-8"))
            except (ValueError, RecursionError):
                frame = None
            if not isinstance(frame, dict):
                self.ended = True
                break
            found.append(frame)
        return found


def _failed(code: str, message: str, retryable: bool = False) -> dict[str, Any]:
    return {"type": "reply", "ok": False, "error": {"code": code, "message": message, "retryable": retryable}}


def _remove(path: str) -> None:
    try:
        os.remove(path)
    except OSError:
        pass
