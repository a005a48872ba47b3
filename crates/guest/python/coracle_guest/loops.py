"""Calls to the host from tasks of event loops. Loaded with the first such call, when `asyncio` is loaded anyway."""

from __future__ import annotations

import asyncio
from _thread import get_ident

from coracle_guest import calls, outbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from coracle_guest.calls import Link

_BATCH = 64
"""The number of frames that are passed on before the loop continues with other work."""


async def call(link: Link, method: str, params: dict[str, Any]) -> Any:
    """Call the host, and let other tasks run until it answers. A cancelled task just stops waiting."""
    loop = asyncio.get_running_loop()
    number, data = link.new_call(method, params)
    watch = _watch(link, loop)
    promise = _Promise(watch, loop.create_future())
    try:
        link.open_call(number, promise)
        watch.send(data)
        reply = await promise.future
    finally:
        link.close_call(number)
        watch.leave()
    return calls.outcome(reply)


class _Promise:
    """A waiting task."""

    def __init__(self, watch: Watch, future: asyncio.Future[dict[str, Any]]) -> None:
        self.frame: dict[str, Any] | None = None
        self.future = future
        self._watch = watch

    def wake(self) -> None:
        """The frame has arrived. Called by the thread that read it, which holds the guard."""
        self._watch.run(self._resolve)

    def _resolve(self) -> None:
        if not self.future.done() and self.frame is not None:
            self.future.set_result(self.frame)


def _watch(link: Link, loop: asyncio.AbstractEventLoop) -> Watch:
    """The watch of this loop, with one more waiting task."""
    with link.guard:
        watch = link.watches.get(loop)
        if watch is None:
            watch = link.watches[loop] = Watch(link, loop)
        watch.tasks += 1
        # A thread that is reading will call `resume` when it leaves.
        is_free = not link.reading
    if is_free:
        watch.begin()
    return watch


class Watch:
    """An event loop with tasks that wait for replies. Methods run in the loop's thread unless they say otherwise."""

    def __init__(self, link: Link, loop: asyncio.AbstractEventLoop) -> None:
        self._link = link
        self._loop = loop
        self._thread = get_ident()
        self._reads = False
        self._writes = False
        self.tasks = 0

    def run(self, step: Any) -> None:
        """Run a step in the loop's thread. Called by any thread."""
        if get_ident() == self._thread:
            step()
            return
        try:
            self._loop.call_soon_threadsafe(step)
        except RuntimeError:
            # The loop was closed with tasks in it, so nothing waits there any more.
            self._link.watches.pop(self._loop, None)

    def resume(self) -> None:
        """No thread is reading any more. Called by any thread, which holds the guard."""
        if not self._reads:
            self.run(self.begin)

    def begin(self) -> None:
        """Read when there is something to read."""
        if self.tasks and not self._reads:
            try:
                self._loop.add_reader(self._link.fd, self._readable)
                self._reads = True
            except RuntimeError:
                self._link.watches.pop(self._loop, None)

    def _readable(self) -> None:
        with self._link.guard:
            # Decided under the guard: when a reading thread leaves, it looks there for loops that have stepped back.
            if self._link.reading:
                self._reads = False
        if not self._reads:
            self._loop.remove_reader(self._link.fd)
            return
        for _ in range(_BATCH):
            if not self._link.drain():
                return

    def send(self, data: bytes) -> None:
        """Send a frame, now or when there is room."""
        with self._link.guard:
            self._link.outgoing.append(memoryview(data))
        self._flush()

    def _flush(self) -> None:
        done = False
        if self._link.sending.acquire(False):
            try:
                done = outbox.flush(self._link, wait=False)
            finally:
                self._link.sending.release()
        if not done and not self._writes:
            self._loop.add_writer(self._link.fd, self._flush)
            self._writes = True
        elif done and self._writes:
            self._loop.remove_writer(self._link.fd)
            self._writes = False

    def leave(self) -> None:
        """Remove a waiting task. Called by any thread, because any thread may destroy a task."""
        with self._link.guard:
            self.tasks -= 1
            if self.tasks:
                return
            self._link.watches.pop(self._loop, None)
        self.run(self._stop)

    def _stop(self) -> None:
        # Unsent data stays in the queue, and the next sender sends it first.
        try:
            if self._reads:
                self._loop.remove_reader(self._link.fd)
            if self._writes:
                self._loop.remove_writer(self._link.fd)
        except RuntimeError:
            # The loop is closed, and has released its descriptors.
            pass
        self._reads = self._writes = False
