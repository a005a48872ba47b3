"""Rules of the package that are easy to break without noticing."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest

from coracle_guest import preload

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

ALLOWED = {"__future__", "_ast", "_json", "_signal", "_thread", "errno", "io", "posix", "sys", "builtins"}


class Imports(unittest.TestCase):
    def test_a_cold_start_imports_only_what_every_run_needs(self) -> None:
        code = f"import io, sys; before = set(sys.modules); sys.path.insert(0, {ROOT!r}); import coracle_guest.agent; print(*set(sys.modules) - before)"
        done = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", code], capture_output=True, text=True, check=True)
        loaded = set(done.stdout.split())
        own = {name for name in loaded if name.startswith("coracle_guest")}
        self.assertLessEqual(loaded - own, ALLOWED)
        self.assertLessEqual(len(own), 11, own)

    def test_preloaded_modules_exist_and_are_harmless(self) -> None:
        code = f"import sys; sys.path.insert(0, {ROOT!r})\nfor name in {preload.MODULES!r}: __import__(name)\nprint('multiprocessing' in sys.modules, '__main__' in sys.modules)"
        done = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", code], capture_output=True, text=True)
        self.assertEqual((done.stdout, done.stderr), ("False True\n", ""))
