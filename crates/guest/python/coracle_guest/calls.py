"""Requests from the guest to the host, and the one reader of the channel.

Several threads may wait at once: callers for their replies, the agent for the next run. Whoever finds nobody reading
reads, and hands each frame to its owner; who leaves wakes another to read on. So no thread of ours exists, which
would not survive a fork and would count against the limit of processes.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from errno import EBADF, ECONNRESET

from coracle_guest import channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

PROTOCOL_STATUS = 70
"""The exit status after a frame that makes no sense (EX_SOFTWARE)."""


class CallError(Exception):
    """The host refused a call or could not carry it out."""

    def __init__(self, code: str, message: str, retryable: bool) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable


class _Waiter:
    """One thread that waits: its frame when it has come, and a lock that is held until it should look."""

    def __init__(self) -> None:
        self.frame: dict[str, Any] | None = None
        self._closed = allocate_lock()
        self._closed.acquire()

    def sleep(self) -> None:
        self._closed.acquire()

    def wake(self) -> None:
        if self._closed.locked():
            self._closed.release()


class _Relay:
    """Stands for a caller outside this process: whoever reads its reply hands it to `deliver`.

    Without a frame, `deliver` is told that nobody reads the channel at the moment.
    """

    def __init__(self, number: int, deliver: Callable[[int, dict[str, Any] | None], None]) -> None:
        self.frame: dict[str, Any] | None = None
        self._number = number
        self._deliver = deliver

    def wake(self) -> None:
        self._deliver(self._number, self.frame)


class Link:
    """The guest's end of the channel, shared by all threads of this process, and by no other process."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._owner = os.getpid()
        self._guard = allocate_lock()
        self._sending = allocate_lock()
        self._reading = False
        self._last_call = 0
        self._callers: dict[int, _Waiter | _Relay] = {}
        self._agent: _Waiter | None = None
        self._requests: list[dict[str, Any]] = []

    def send(self, frame: dict[str, Any]) -> None:
        """Send one frame whole, whatever other threads send."""
        with self._sending:
            channel.send(self.fd, frame)

    def next_request(self) -> dict[str, Any]:
        """The next frame that is not a reply. Ends the process at the end of the stream."""
        waiter = _Waiter()
        with self._guard:
            if self._requests:
                return self._requests.pop(0)
            self._agent = waiter
        return self._wait(waiter)

    def call(self, method: str, params: dict[str, Any]) -> Any:
        """Ask the host and wait for its answer."""
        if os.getpid() != self._owner:
            raise CallError("invalid_request", "a forked child cannot call the host; call from the main program", False)
        waiter = _Waiter()
        with self._guard:
            self._last_call += 1
            number = self._last_call
            self._callers[number] = waiter
        try:
            self.send({"type": "call", "id": number, "method": method, "params": params})
            reply = self._wait(waiter)
        finally:
            with self._guard:
                self._callers.pop(number, None)
        if reply["ok"]:
            return reply.get("value")
        error = reply["error"]
        raise CallError(str(error["code"]), str(error["message"]), bool(error.get("retryable")))

    def forward(self, method: str, params: dict[str, Any], deliver: Callable[[int, dict[str, Any] | None], None]) -> int:
        """Ask the host for a child process: the number under which `deliver` is given the reply."""
        with self._guard:
            self._last_call += 1
            number = self._last_call
            self._callers[number] = _Relay(number, deliver)
        try:
            self.send({"type": "call", "id": number, "method": method, "params": params})
        except BaseException:
            self.abandon(number)
            raise
        return number

    def abandon(self, number: int) -> None:
        """Wait no longer for the reply to a forwarded call."""
        with self._guard:
            self._callers.pop(number, None)

    def take_one(self) -> bool:
        """Read one frame if there is one, and hand it to its owner; false if another thread is reading."""
        import select

        with self._guard:
            if self._reading:
                return False
            self._reading = True
        try:
            if select.select([self.fd], [], [], 0)[0]:
                self._deliver(self._read())
        finally:
            self._reading = False
            self._leave(None)
        return True

    def _wait(self, waiter: _Waiter) -> dict[str, Any]:
        try:
            while True:
                with self._guard:
                    if waiter.frame is not None:
                        return waiter.frame
                    lead = not self._reading
                    if lead:
                        self._reading = True
                if not lead:
                    waiter.sleep()
                    continue
                try:
                    self._deliver(self._read())
                finally:
                    self._reading = False
        finally:
            self._leave(waiter)

    def _leave(self, leaver: _Waiter | None) -> None:
        """Let somebody else read, now that `leaver` does not wait any more."""
        with self._guard:
            if leaver is not None and self._agent is leaver:
                self._agent = None
            if self._reading:
                return
            for waiter in (self._agent, *self._callers.values()):
                if waiter is not None and waiter is not leaver and waiter.frame is None:
                    waiter.wake()
                    return

    def _read(self) -> dict[str, Any]:
        try:
            frame = channel.receive(self.fd)
        except channel.ProtocolError:
            os._exit(PROTOCOL_STATUS)
        except OSError as error:
            # A signal handler of the user's may raise a TimeoutError: an OSError, but none of the channel's.
            if error.errno not in (ECONNRESET, EBADF):
                raise
            frame = None
        if frame is None:
            os._exit(0)
        return frame

    def _deliver(self, frame: dict[str, Any]) -> None:
        with self._guard:
            if frame["type"] == "reply":
                if not _is_reply(frame):
                    os._exit(PROTOCOL_STATUS)
                waiter = self._callers.get(frame["id"])
            elif self._agent is None:
                self._requests.append(frame)
                return
            else:
                waiter = self._agent
            # No waiter: its caller has given up, for instance by a time-out of its own.
            if waiter is not None:
                waiter.frame = frame
                waiter.wake()


def _is_reply(frame: dict[str, Any]) -> bool:
    if type(frame.get("id")) is not int or type(frame.get("ok")) is not bool:
        return False
    error = frame.get("error")
    return frame["ok"] or (isinstance(error, dict) and "code" in error and "message" in error)


_link: Link | None = None


def attach(fd: int) -> Link:
    """Make `fd` the channel of this process."""
    global _link
    _link = Link(fd)
    return _link


def call(method: str, params: dict[str, Any]) -> Any:
    """Ask the host; blocks this thread only. Raises `CallError` with the host's reason."""
    if _link is None:
        raise CallError("invalid_request", "there is no host to call", False)
    return _link.call(method, params)
