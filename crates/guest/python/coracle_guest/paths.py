"""Where modules are looked for."""

from __future__ import annotations

import posix
import sys


def search() -> list[str]:
    """The standard library, Coracle's own packages, the installed ones, and the workspace last: a planted `json.py`
    changes nothing."""
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
    return [*library, "/coracle", *filter(_is_there, installed), "/workspace"]


def _is_there(folder: str) -> bool:
    try:
        posix.stat(folder)
    except OSError:
        return False
    return True
