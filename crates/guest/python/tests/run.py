"""Runs all tests of the guest: `python3 -I tests/run.py`."""

from __future__ import annotations

import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))

if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.path[:0] = [HERE, os.path.dirname(HERE)]
    suite = unittest.defaultTestLoader.discover(HERE, pattern="test_*.py", top_level_dir=HERE)
    verbosity = 2 if "-v" in sys.argv else 1
    sys.exit(not unittest.TextTestRunner(verbosity=verbosity).run(suite).wasSuccessful())
