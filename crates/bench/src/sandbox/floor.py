"""The floor of `coracle bench sandbox`: what a new process in new namespaces costs, and nothing else.

A Python with the usual modules imported forks; the child enters fresh user, mount, pid, ipc, uts and network namespaces,
runs `pass` and reports back. There are no mounts, filters, limits or protocol. Any tool that creates one process per
execution on demand costs at least this much.

Reads orders from standard input, one per line, and answers each with one line of JSON:
`time N` returns the milliseconds of N runs, `rate WORKERS SECONDS` the runs per second of that many processes.
"""

import ctypes
import gc
import json
import os
import random
import sys
import time

# Imports that make this process as large as a prepared one, because the size of a process affects the cost of a fork.
import ast, asyncio, collections, datetime, io, math, re, socket, statistics, traceback  # noqa: E401, F401

NEW_USER, NEW_MOUNT, NEW_PID = 0x10000000, 0x00020000, 0x20000000
NEW_IPC, NEW_UTS, NEW_NETWORK = 0x08000000, 0x04000000, 0x40000000
ALL = NEW_USER | NEW_MOUNT | NEW_PID | NEW_IPC | NEW_UTS | NEW_NETWORK
DONE = b"."

_libc = ctypes.CDLL(None, use_errno=True)


def _child(answer: int) -> None:
    """Run in the new process; never returns."""
    if _libc.unshare(ALL) != 0:
        os._exit(ctypes.get_errno() or 1)
    random.seed()
    exec(compile("pass", "<pass>", "exec"), {})
    os.write(answer, DONE)
    os._exit(0)


def run() -> float:
    """Return the seconds from starting a process to its answer, without waiting for its end."""
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
        sys.exit(f"cannot create namespaces: {cause}")
    return taken


def rate(workers: int, seconds: float) -> float:
    """Return the runs per second of this many parallel workers."""
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
    """Serve orders until the end of the input."""
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
