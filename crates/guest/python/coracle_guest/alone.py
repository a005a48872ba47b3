"""A sandbox that was started for one command, without a zygote: confined before Python began."""

from __future__ import annotations

import sys

from coracle_guest import agent, channel, paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

# Where the launcher puts the channel.
CHANNEL = 3


def main() -> NoReturn:
    """Say that it waits, and serve the host."""
    sys.path[:] = paths.search()
    sys.meta_path.append(paths.Absent())
    served = agent.Agent(CHANNEL)
    served.adopt()
    channel.send(CHANNEL, agent.ready())
    served.serve()
