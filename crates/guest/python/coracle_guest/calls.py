"""Requests from the guest to the host, and the only reader of the channel.

Several threads may wait at once: callers for their replies, the agent for the next run. A waiting thread reads if no
other does, and passes each frame to its owner. When it leaves, it wakes another to continue. So there is no thread of
our own, which would not survive a fork and would count towards the limit on processes.

Tasks of an event loop wait as well (`loops.py`). A loop never blocks on the channel: it watches the channel while no
thread reads, and steps back when one does, because that thread passes on the frames of all.

The host may block on sending replies while we send calls. So a sender that has to wait reads meanwhile
(`outbox.py`).
"""

from __future__ import annotations

import posix
from _thread import RLock, allocate_lock
from errno import EBADF, ECONNRESET

from coracle_guest import channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

PROTOCOL_STATUS = 70
"""The exit status after an invalid frame (EX_SOFTWARE)."""


class CallError(Exception):
    """The host refused a call or failed to carry it out."""

    def __init__(self, code: str, message: str, retryable: bool) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable


class _Waiter:
    """A waiting thread: its frame once it has arrived, and a lock that is held until the thread should check."""

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
    """Represents a caller outside this process: the thread that reads the reply passes it to `deliver`.

    Calling `deliver` without a frame means that no thread is reading the channel.
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
        # Reentrant: the garbage collector may destroy a waiting task, which then leaves, at any point.
        self.guard = RLock()
        self.sending = allocate_lock()
        self.reading = False
        # Frames that could not be written at once. The first may be partly written, so nothing may be sent before its
        # rest.
        self.outgoing: list[memoryview] = []
        # Event loops with waiting tasks, each with its `loops.Watch`.
        self.watches: dict[Any, Any] = {}
        self._owner = posix.getpid()
        self._last_call = 0
        self._unanswered = 0
        self._callers: dict[int, Any] = {}
        self._sleepers: dict[_Waiter, None] = {}
        self._relays: dict[int, _Relay] = {}
        self._agent: _Waiter | None = None
        self._requests: list[dict[str, Any]] = []

    def adopt(self) -> None:
        """Belong to this process, which a process with the link has forked."""
        self._owner = posix.getpid()

    def send(self, frame: dict[str, Any]) -> None:
        """Send one complete frame, whatever other threads send. Raises `ValueError`/`TypeError` before sending
        anything."""
        self._send(channel.frame(frame), 0)

    def _send(self, data: bytes, own: int) -> None:
        with self.sending:
            # The host cannot block on a reply if no other call waits for one: just write.
            if self._unanswered <= own and not self.outgoing:
                channel.write(self.fd, data)
                return
            from coracle_guest import outbox

            with self.guard:
                self.outgoing.append(memoryview(data))
            outbox.flush(self, wait=True)

    def first_request(self) -> dict[str, Any]:
        """Like `next_request`, while nothing else can be waiting: a new process pays for all memory that it touches."""
        try:
            frame = channel.receive_at_once(self.fd)
        except channel.ProtocolError:
            posix._exit(PROTOCOL_STATUS)
        return frame or self.next_request()

    def next_request(self) -> dict[str, Any]:
        """The next frame that is not a reply. Ends the process at the end of the stream."""
        waiter = _Waiter()
        with self.guard:
            if self._requests:
                return self._requests.pop(0)
            self._agent = waiter
        return self._wait(waiter)

    def call(self, method: str, params: dict[str, Any]) -> Any:
        """Call the host and wait for its answer."""
        number, data = self.new_call(method, params)
        waiter = _Waiter()
        self.open_call(number, waiter)
        try:
            self._send(data, 1)
            reply = self._wait(waiter)
        finally:
            self.close_call(number)
        return outcome(reply)

    def new_call(self, method: str, params: dict[str, Any]) -> tuple[int, bytes]:
        """The number and the frame of a new call."""
        if posix.getpid() != self._owner:
            raise CallError("invalid_request", "a forked child cannot call the host; call from the main program", False)
        with self.guard:
            self._last_call += 1
            number = self._last_call
        return number, channel.frame({"type": "call", "id": number, "method": method, "params": params})

    def open_call(self, number: int, waiter: Any) -> None:
        """Register a call: from now on its reply may arrive, and goes to `waiter`."""
        with self.guard:
            self._unanswered += 1
            self._callers[number] = waiter

    def close_call(self, number: int) -> None:
        """Stop waiting for this reply. If it still arrives, it is dropped."""
        with self.guard:
            self._callers.pop(number, None)

    def forward(self, method: str, params: dict[str, Any], deliver: Callable[[int, dict[str, Any] | None], None]) -> int:
        """Call the host for a child process. Returns the number with which `deliver` is called."""
        number, data = self.new_call(method, params)
        relay = _Relay(number, deliver)
        self.open_call(number, relay)
        self._relays[number] = relay
        try:
            self._send(data, 1)
        except BaseException:
            self.abandon(number)
            raise
        return number

    def abandon(self, number: int) -> None:
        """Stop waiting for the reply to a forwarded call."""
        self._relays.pop(number, None)
        self.close_call(number)

    def take_one(self) -> bool:
        """Read one frame, if there is one, and pass it to its owner. Returns false if another thread is reading."""
        if self.reading:
            return False
        self.drain()
        return True

    def _wait(self, waiter: _Waiter) -> dict[str, Any]:
        try:
            while True:
                with self.guard:
                    if waiter.frame is not None:
                        return waiter.frame
                    self._sleepers[waiter] = None
                    lead = not self.reading
                    if lead:
                        self.reading = True
                if not lead:
                    waiter.sleep()
                    continue
                try:
                    self._deliver(self._read(wait=True))
                finally:
                    self.reading = False
        finally:
            self._leave(waiter)

    def drain(self) -> bool:
        """Pass on one frame if it is complete. Does nothing while a thread reads. Returns whether it did something."""
        with self.guard:
            if self.reading:
                return False
            self.reading = True
        try:
            self._deliver(self._read(wait=False))
        except channel.WouldBlock:
            return False
        finally:
            self.reading = False
            self._leave(None)
        return True

    def _leave(self, leaver: _Waiter | None) -> None:
        """Let another thread or loop read, because `leaver` no longer does."""
        with self.guard:
            if leaver is not None:
                self._sleepers.pop(leaver, None)
                if self._agent is leaver:
                    self._agent = None
            if self.reading:
                return
            for waiter in list(self._sleepers):
                if waiter.frame is None:
                    waiter.wake()
                    return
            for watch in list(self.watches.values()):
                watch.resume()
            for relay in list(self._relays.values()):
                if relay.frame is None:
                    relay.wake()
                    return

    def _read(self, wait: bool) -> dict[str, Any]:
        try:
            frame = channel.receive(self.fd, wait)
        except channel.ProtocolError:
            posix._exit(PROTOCOL_STATUS)
        except OSError as error:
            # A signal handler of the user's may raise a TimeoutError, which is an OSError but does not concern the
            # channel.
            if error.errno not in (ECONNRESET, EBADF):
                raise
            frame = None
        if frame is None:
            posix._exit(0)
        return frame

    def _deliver(self, frame: dict[str, Any]) -> None:
        with self.guard:
            if frame["type"] == "reply":
                if not _is_reply(frame):
                    posix._exit(PROTOCOL_STATUS)
                self._unanswered = max(self._unanswered - 1, 0)
                waiter = self._callers.get(frame["id"])
            elif self._agent is None or self._agent.frame is not None:
                self._requests.append(frame)
                return
            else:
                waiter = self._agent
            # No waiter: its caller has given up, for instance because of a time-out.
            if waiter is not None:
                waiter.frame = frame
                waiter.wake()


def outcome(reply: dict[str, Any]) -> Any:
    """The value of a reply. Raises its error."""
    if reply["ok"]:
        return reply.get("value")
    error = reply["error"]
    raise CallError(str(error["code"]), str(error["message"]), bool(error.get("retryable")))


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
    """Call the host. Blocks this thread only. Raises `CallError` with the host's reason."""
    if _link is None:
        raise CallError("invalid_request", "there is no host to call", False)
    return _link.call(method, params)


async def call_async(method: str, params: dict[str, Any]) -> Any:
    """Like `call`, for a task of an event loop: other tasks continue meanwhile."""
    if _link is None:
        raise CallError("invalid_request", "there is no host to call", False)
    from coracle_guest import loops

    return await loops.call(_link, method, params)
