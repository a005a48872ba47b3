"""The floor of `coracle bench sandbox`: what a new process in new namespaces costs, and nothing else.

A Python with the usual modules imported forks; the child enters fresh user, mount, pid, ipc, uts and network namespaces,
runs `pass` and says so. No mounts, no filters, no limits, no protocol. Whoever makes one process for each execution on
demand pays at least this.

Reads orders from standard input, one a line, and answers each with one line of JSON:
`time N` gives the milliseconds of N runs, `rate WORKERS SECONDS` the runs a second of that many processes at once.
"""

import ctypes
import gc
import json
import os
import random
import sys
import time

# What makes this Python as large as one that is ready for work; the size of a process is part of the cost of a fork.
import ast, asyncio, collections, datetime, io, math, re, socket, statistics, traceback  # noqa: E401, F401

NEW_USER, NEW_MOUNT, NEW_PID = 0x10000000, 0x00020000, 0x20000000
NEW_IPC, NEW_UTS, NEW_NETWORK = 0x08000000, 0x04000000, 0x40000000
ALL = NEW_USER | NEW_MOUNT | NEW_PID | NEW_IPC | NEW_UTS | NEW_NETWORK
DONE = b"."

_libc = ctypes.CDLL(None, use_errno=True)


def _child(answer: int) -> None:
    """In the new process; never returns."""
    if _libc.unshare(ALL) != 0:
        os._exit(ctypes.get_errno() or 1)
    random.seed()
    exec(compile("pass", "<pass>", "exec"), {})
    os.write(answer, DONE)
    os._exit(0)


def run() -> float:
    """One process there and back, in seconds; the time ends with its answer, not with its funeral."""
    hear, answer = os.pipe()
    begun = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        _child(answer)
    os.close(answer)
    heard = os.read(hear, 1)
    taken = time.perf_counter() - begun
    os.close(hear)
    status = os.waitpid(pid, 0)[1]
    if heard != DONE:
        cause = os.strerror(os.waitstatus_to_exitcode(status))
        sys.exit(f"fresh namespaces were refused: {cause}")
    return taken


def rate(workers: int, seconds: float) -> float:
    """Runs a second of so many processes at once, each of which does one after the other."""
    hear, answer = os.pipe()
    begun = time.perf_counter()
    pids = []
    for _ in range(workers):
        pid = os.fork()
        if pid == 0:
            count, end = 0, time.perf_counter() + seconds
            while time.perf_counter() < end:
                run()
                count += 1
            os.write(answer, b"%d\n" % count)
            os._exit(0)
        pids.append(pid)
    os.close(answer)
    with open(hear, "rb") as counts:
        total = sum(map(int, counts))
    taken = time.perf_counter() - begun
    for pid in pids:
        os.waitpid(pid, 0)
    return total / taken


def main() -> None:
    """Serves orders until there are no more."""
    gc.collect()
    gc.freeze()
    for order in sys.stdin:
        name, *numbers = order.split()
        if name == "time":
            answer = [run() * 1e3 for _ in range(int(numbers[0]))]
        else:
            answer = rate(int(numbers[0]), float(numbers[1]))
        print(json.dumps(answer), flush=True)


main()
