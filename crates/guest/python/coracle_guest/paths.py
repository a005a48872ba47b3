"""Where modules are looked for."""

from __future__ import annotations

import posix
import sys


ENVIRONMENT = "/environment"
"""Where the packages of the managed environment are, if there is one."""

TOOLS = "/tools"
"""Where the operator's modules are, if there are any."""


def search() -> list[str]:
    """The standard library, Coracle's own packages, the installed ones, the operator's modules, and the workspace last:
    a planted `json.py` changes nothing."""
    version = "python{}.{}".format(*sys.version_info[:2])
    shared = [f"/usr/local/lib/{version}/dist-packages", "/usr/lib/python3/dist-packages"]
    environment = sys.executable.rpartition("/")[0].rpartition("/")[0]
    try:
        with open(f"{environment}/pyvenv.cfg") as file:
            # Python reads this in `site`, which we do without.
            sys.prefix = sys.exec_prefix = environment
            alone = "include-system-site-packages = true" not in file.read().lower()
    except OSError:
        alone = False
    installed = [f"{sys.prefix}/lib/{version}/site-packages", *(() if alone else shared)]
    library = [folder for folder in sys.path if folder != "/coracle"]
    tools = [TOOLS] if _device(TOOLS) != _device("/") else []
    return [*library, "/coracle", *filter(_device, [ENVIRONMENT, *installed]), *tools, "/workspace"]


def _device(folder: str) -> int:
    """Which file system it is on; 0 if it is not there. What was not mounted is on that of the root."""
    try:
        return posix.stat(folder).st_dev
    except OSError:
        return 0
