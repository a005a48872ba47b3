"""Searches for a canary everywhere. It is passed in reverse, so that the search itself does not plant it."""

import os
import sys
import threading

wanted = backwards[::-1]
found = set()
closed = set()


def look(place, text):
    text = text if isinstance(text, bytes) else str(text).encode("utf-8", "replace")
    if wanted.encode() in text:
        found.add(place)


def walk(top):
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            look(f"name in {top}", name)
            path = f"{folder}/{name}"
            if os.path.islink(path):
                look(f"link in {top}", os.readlink(path))
        for name in files:
            try:
                # Reading a device never ends, and opening a FIFO blocks.
                if os.path.isfile(f"{folder}/{name}"):
                    with open(f"{folder}/{name}", "rb") as file:
                        look(f"content in {top}", file.read(1 << 20))
            except OSError:
                closed.add(top)


for top in ("/workspace", "/tmp", "/dev", "/artifacts", "/etc", "/coracle", "/skills", "/tools"):
    walk(top)
look("name in /", os.listdir("/"))
for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
    for name in (
        "cmdline", "environ", "maps", "stat", "comm", "status", "mountinfo", "cwd/.", "root/.", "task", "fd",
        "fdinfo", "map_files", "ns",
    ):
        path = f"/proc/{pid}/{name}"
        try:
            if os.path.isdir(path):
                for entry in os.listdir(path):
                    look("name in /proc", entry)
                    if os.path.islink(f"{path}/{entry}"):
                        look("descriptor", os.readlink(f"{path}/{entry}"))
            else:
                with open(path, "rb") as file:
                    look(f"/proc/PID/{name}", file.read())
        except OSError:
            closed.add(path)
for program in (["ps", "axuwww"], ["ps", "axuwwwe"], ["ipcs", "-a"], ["lsof"], ["ss", "-xa"]):
    try:
        import subprocess

        told = subprocess.run(program, capture_output=True, timeout=10)
        look(f"{program[0]}", told.stdout)
    except (OSError, subprocess.TimeoutExpired):
        pass
look("environment", dict(os.environ))
look("thread", [thread.name for thread in threading.enumerate()])
look("module", [repr(module) for module in list(sys.modules.values())])
look(
    "built-in",
    {name: value for name, value in vars(__builtins__).items()} if not isinstance(__builtins__, dict) else __builtins__,
)
look("variable", {name: value for name, value in globals().items() if name not in ("wanted", "found")})

# Values that reveal the activity of others.
timing = []
for name in (
    "stat", "loadavg", "uptime", "meminfo", "vmstat", "schedstat", "interrupts", "softirqs", "diskstats", "locks",
    "pressure/cpu", "pressure/memory", "pressure/io", "self/stat", "self/sched", "self/schedstat", "self/status",
    "self/cgroup",
):
    try:
        with open(f"/proc/{name}") as file:
            timing.append((name, file.read(100)))
    except OSError:
        pass
result = {"found": sorted(found), "timing": timing, "processes": sum(name.isdigit() for name in os.listdir("/proc"))}
