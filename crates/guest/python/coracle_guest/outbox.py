"""Sends while the channel is full, without a deadlock: the host may not read until we have read."""

from __future__ import annotations

import os
import select
from _signal import SIG_BLOCK, SIG_SETMASK, pthread_sigmask, valid_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from coracle_guest.calls import Link

_PIECE = 4096
"""The number of bytes that a writable stream accepts without blocking, whether it is a socket or a pipe."""

_PAUSE = 5
"""Milliseconds to wait for room while another thread reads, before checking again whether it still does."""

_SIGNALS = tuple(valid_signals())


def flush(link: Link, wait: bool) -> bool:
    """Write queued data. Returns true when nothing is left. The caller holds `link.sending`.

    With `wait`, continues until everything is written, and reads if that is what the host waits for.
    """
    poll = select.poll()
    poll.register(link.fd, select.POLLIN | select.POLLOUT)
    room = select.poll()
    room.register(link.fd, select.POLLOUT)
    while link.outgoing:
        found = poll.poll(None if wait else 0)
        events = found[0][1] if found else 0
        if events & ~select.POLLIN:
            _write(link)
        elif not wait:
            return False
        elif not link.drain():
            room.poll(_PAUSE)
    return True


def _write(link: Link) -> None:
    # If a handler of the user's raised between writing and counting, the same bytes would be sent twice.
    mask = pthread_sigmask(SIG_BLOCK, _SIGNALS)
    try:
        head = link.outgoing[0]
        rest = head[os.write(link.fd, head[:_PIECE]) :]
        with link.guard:
            if rest:
                link.outgoing[0] = rest
            else:
                link.outgoing.pop(0)
    finally:
        pthread_sigmask(SIG_SETMASK, mask)
