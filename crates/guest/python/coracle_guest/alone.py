"""The start of a sandbox for one command, without a zygote: it was confined before Python started."""

from __future__ import annotations

import sys

from coracle_guest import agent, channel, paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

# The descriptor number of the channel, as set by the launcher.
CHANNEL = 3


def main() -> NoReturn:
    """Send `ready`, and serve the host."""
    sys.path[:] = paths.search()
    sys.meta_path.append(paths.Absent())
    served = agent.Agent(CHANNEL)
    served.adopt()
    channel.send(CHANNEL, agent.ready())
    served.serve()
