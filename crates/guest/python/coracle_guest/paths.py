"""Where modules are looked for, and which Python the programs get that code starts."""

from __future__ import annotations

import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ENVIRONMENT = "/environment"
"""Where the packages of the managed environment are, if there is one."""

TOOLS = "/tools"
"""Where the operator's modules are, if there are any."""

MODULES = "/modules"
"""Where modules are that the operator wrote by hand for the packages below, if there are any."""

PACKAGES = ("servers", "skills")

PROGRAM = "/coracle/bin/python"
"""The Python that bash and child processes find: this interpreter, with the same packages (see `write`)."""


class Absent:
    """Stands last in `sys.meta_path`, and says why a server that the settings name has no modules."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raises with the reason, if the host knows one; finds nothing."""
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
    """The standard library, Coracle's own packages, the installed ones, the operator's modules, and the workspace last:
    a planted `json.py` changes nothing."""
    installed = _installed()
    library = [folder for folder in sys.path if folder != "/coracle"]
    tools = [TOOLS] if _device(TOOLS) != _device("/") else []
    if _device(PROGRAM):
        sys.executable = PROGRAM
    if _device(MODULES):
        attend()
    return [*library, "/coracle", *filter(_device, [ENVIRONMENT, *installed]), *tools, "/workspace"]


class Written:
    """Finds `servers.NAME` and `skills.NAME` among what the operator wrote. It is asked last: generated modules and saved
    skills come first."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        """What the import system asks each finder."""
        package, _, module = name.partition(".")
        if package not in PACKAGES or not module or "." in module:
            return None
        from _frozen_importlib_external import PathFinder

        return PathFinder.find_spec(name, [f"{MODULES}/{package}"], target)


def attend() -> None:
    """From now on imports find what the operator wrote."""
    sys.meta_path.append(Written)


def write(folder: str) -> None:
    """Make `folder`, which will be seen at `/coracle`, a virtual environment of this interpreter with the packages of
    `search`. Without it, what bash and `subprocess` start would be whatever Python comes first on the search path.
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
    # What is not there is passed over when this is read.
    with open(f"{packages}/coracle.pth", "w") as file:
        file.write("\n".join(["/coracle", ENVIRONMENT, *_installed(), TOOLS, "/workspace", _ATTEND, ""]))


_ATTEND = f"import os; os.path.isdir({MODULES!r}) and __import__('coracle_guest.paths').paths.attend()"


def _installed() -> list[str]:
    """The packages that this interpreter has itself."""
    version = _version()
    shared = [f"/usr/local/lib/{version}/dist-packages", "/usr/lib/python3/dist-packages"]
    environment = sys.executable.rpartition("/")[0].rpartition("/")[0]
    try:
        with open(f"{environment}/pyvenv.cfg") as file:
            # Python reads this in `site`, which we do without.
            sys.prefix = sys.exec_prefix = environment
            alone = "include-system-site-packages = true" not in file.read().lower()
    except OSError:
        alone = False
    return [f"{sys.prefix}/lib/{version}/site-packages", *(() if alone else shared)]


def _version() -> str:
    return "python{}.{}".format(*sys.version_info[:2])


def _device(folder: str) -> int:
    """Which file system it is on; 0 if it is not there. What was not mounted is on that of the root."""
    try:
        return posix.stat(folder).st_dev
    except OSError:
        return 0
