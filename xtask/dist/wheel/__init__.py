"""Starts the coracle program that came with this package."""

import os
import shutil
import sys
import sysconfig


def find_coracle():
    """Return the path of the program."""
    folders = [
        # An environment, or a system-wide installation.
        sysconfig.get_path("scripts"),
        # pip install --user
        sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")),
        # pip install --target
        os.path.join(os.path.dirname(os.path.dirname(__file__)), "bin"),
        # The command that started this.
        os.path.dirname(os.path.abspath(sys.argv[0])),
    ]
    for folder in folders:
        path = os.path.join(folder, "coracle")
        if os.access(path, os.X_OK):
            return path
    raise FileNotFoundError("cannot find the coracle program in " + ", ".join(folders))


def has_python():
    """Whether the machine has a Python for sandboxes, judged by file names, to start none."""
    path = shutil.which("python3", path="/usr/bin:/usr/local/bin:" + os.environ.get("PATH", ""))
    if path is None:
        return False
    minor = os.path.basename(os.path.realpath(path)).removeprefix("python3.")
    return not minor.isdigit() or int(minor) >= 10


def main():
    """Become the program."""
    path = find_coracle()
    if not has_python():
        os.environ.setdefault("CORACLE_PYTHON", sys.executable)
    os.execv(path, [path, *sys.argv[1:]])
