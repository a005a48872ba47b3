"""Changes what others would use, and leaves a process that belongs to nobody."""

import json

if os.fork() == 0:
    os.setsid()
    os.execv("/bin/bash", ["bash", "-c", f"exec -a {mark} sleep 60"])
json.loads = None
os.getcwd = lambda: mark
builtins.sorted = None
builtins.range = None
