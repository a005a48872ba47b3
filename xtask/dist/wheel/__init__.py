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


def main():
    """Become the program."""
    path = find_coracle()
    # Sandboxes need a Python too, and there may be no other on this machine.
    if shutil.which("python3") is None:
        os.environ.setdefault("CORACLE_PYTHON", sys.executable)
    os.execv(path, [path, *sys.argv[1:]])
