"""Changes shared state, and leaves an orphaned process."""

import json

if os.fork() == 0:
    os.setsid()
    os.execv("/bin/bash", ["bash", "-c", f"exec -a {mark} sleep 60"])
json.loads = None
os.getcwd = lambda: mark
builtins.sorted = None
builtins.range = None
