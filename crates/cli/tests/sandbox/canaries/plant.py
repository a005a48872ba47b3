"""Leaves a canary, `mark`, wherever a sandbox can keep something."""

import builtins
import os
import subprocess
import sys
import threading
import types

os.environ["CANARY"] = mark
for folder in ("/workspace", "/tmp", "/dev/shm", "/artifacts"):
    # /dev/shm may be a link to /tmp.
    os.makedirs(f"{folder}/{mark}", exist_ok=True)
    with open(f"{folder}/{mark}/{mark}", "w") as file:
        file.write(mark)
try:
    memory = os.memfd_create(mark)
except PermissionError:
    # Without a memory cgroup there are no memory files, so an open file on disk is used.
    memory = os.open(f"/tmp/{mark}/{mark}-open", os.O_CREAT | os.O_RDWR)
os.write(memory, mark.encode())
process = subprocess.Popen(["/bin/bash", "-c", f"exec -a {mark} sleep 60"])
secret = [mark, mark.encode()]
builtins.canary = mark
sys.modules["canary"] = types.ModuleType(mark)
thread = threading.Thread(target=threading.Event().wait, name=mark, daemon=True)
thread.start()
result = process.pid
