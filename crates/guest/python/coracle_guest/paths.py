"""The search path for modules, and the Python for programs that code starts."""

from __future__ import annotations

import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ENVIRONMENT = "/environment"
"""The packages of the managed environment, if there is one."""

TOOLS = "/tools"
"""The operator's modules, if there are any."""

MODULES = "/modules"
"""Modules of the operator for the packages below, if there are any."""

PACKAGES = ("servers", "skills")

PROGRAM = "/coracle/bin/python"
"""The Python for bash and child processes: this interpreter, with the same packages (see `write`)."""


class Absent:
    """The last entry of `sys.meta_path`, which reports why a configured server has no modules."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raise with the reason, if the host knows one. Never finds anything."""
        package, _, server = name.partition(".")
        if package != "servers" or "." in server:
            return
        from coracle_guest import calls

        try:
            absent = calls.call("absent", {"server": server})
        except calls.CallError:
            return
        if absent:
            reasons = "; ".join(entry["reason"] for entry in absent)
            raise ModuleNotFoundError(f"No module named {name!r}: {reasons}", name=name)


def search() -> list[str]:
    """The standard library, Coracle's own packages, the installed ones, the operator's modules, and the workspace last,
    so that a planted `json.py` has no effect."""
    installed = _installed()
    library = [folder for folder in sys.path if folder != "/coracle"]
    tools = [TOOLS] if _device(TOOLS) != _device("/") else []
    if _device(PROGRAM):
        sys.executable = PROGRAM
    if _device(MODULES):
        attend()
    return [*library, "/coracle", *filter(_device, [ENVIRONMENT, *installed]), *tools, "/workspace"]


class Written:
    """Finds `servers.NAME` and `skills.NAME` in the operator's modules. It comes last: generated modules and saved
    skills take precedence."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        """Find a module, for the import system."""
        package, _, module = name.partition(".")
        if package not in PACKAGES or not module or "." in module:
            return None
        from _frozen_importlib_external import PathFinder

        return PathFinder.find_spec(name, [f"{MODULES}/{package}"], target)


def attend() -> None:
    """Make the operator's modules importable."""
    sys.meta_path.append(Written)


def write(folder: str) -> None:
    """Make `folder`, which will be mounted at `/coracle`, a virtual environment of this interpreter with the packages
    of `search`. Otherwise, bash and `subprocess` would start the first Python on the search path.
    """
    import os

    version = _version()
    program = os.path.realpath(sys.executable)
    for name in ("python", "python3", version):
        os.symlink(program, f"{folder}/bin/{name}")
    with open(f"{folder}/pyvenv.cfg", "w") as file:
        file.write(f"home = {os.path.dirname(program)}\ninclude-system-site-packages = false\n")
    packages = f"{folder}/lib/{version}/site-packages"
    os.makedirs(packages)
    # Missing folders are ignored when this is read.
    with open(f"{packages}/coracle.pth", "w") as file:
        file.write("\n".join(["/coracle", ENVIRONMENT, *_installed(), TOOLS, "/workspace", _ATTEND, ""]))


_ATTEND = f"import os; os.path.isdir({MODULES!r}) and __import__('coracle_guest.paths').paths.attend()"


def _installed() -> list[str]:
    """The packages of the interpreter itself."""
    version = _version()
    shared = [f"/usr/local/lib/{version}/dist-packages", "/usr/lib/python3/dist-packages"]
    environment = sys.executable.rpartition("/")[0].rpartition("/")[0]
    try:
        with open(f"{environment}/pyvenv.cfg") as file:
            # Python does this in `site`, which we do not load.
            sys.prefix = sys.exec_prefix = environment
            alone = "include-system-site-packages = true" not in file.read().lower()
    except OSError:
        alone = False
    return [f"{sys.prefix}/lib/{version}/site-packages", *(() if alone else shared)]


def _version() -> str:
    return "python{}.{}".format(*sys.version_info[:2])


def _device(folder: str) -> int:
    """The device of a path, or 0 if it does not exist. Unmounted paths have that of the root."""
    try:
        return posix.stat(folder).st_dev
    except OSError:
        return 0
