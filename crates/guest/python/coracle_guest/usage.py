"""Adds up what the processes of a sandbox use, for limits that the kernel does not enforce for a whole tree."""

from __future__ import annotations

import os

_PAGE = os.sysconf("SC_PAGE_SIZE")
_MOST_PROCESSES = 4096
_MOST_FILES = 4096
_DELETED = " (deleted)"


def tree(first: int) -> list[int]:
    """The processes of a sandbox that has its own pid namespace: its first one adopts orphans, so all descend from it."""
    found = [first]
    for pid in found:
        if len(found) >= _MOST_PROCESSES:
            break
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for task in tasks:
            found += (int(child) for child in _read(f"/proc/{pid}/task/{task}/children").split())
    return found


def everything(own: int) -> list[int]:
    """All processes of the container except the agent."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != own]


def threads(pids: list[int]) -> int:
    """The number of processes and threads."""
    total = 0
    for pid in pids:
        try:
            total += len(os.listdir(f"/proc/{pid}/task"))
        except OSError:
            # It has ended, or it belongs to a user whose threads are not shown.
            total += 1
    return total


def resident(pids: list[int]) -> int:
    """The resident memory in bytes. Shared pages count several times."""
    total = 0
    for pid in pids:
        words = _read(f"/proc/{pid}/statm").split()
        total += int(words[1]) * _PAGE if len(words) > 1 else 0
    return total


def proportional(pids: list[int]) -> int:
    """The memory in bytes, with each process's share of shared pages: exact and slow."""
    total = 0
    for pid in pids:
        text = _read(f"/proc/{pid}/smaps_rollup")
        found = [line.split() for line in text.splitlines() if line.startswith("Pss:")]
        total += int(found[0][1]) * 1024 if found else 0
    return total


def has_own_kernel() -> bool:
    """Whether this container has a kernel of its own, such as gVisor's, which does not know the shares of shared pages,
    and whose memory is that of the container."""
    return not os.path.exists("/proc/self/smaps_rollup")


def of_kernel() -> int:
    """The memory of all processes of the kernel, without files, in bytes."""
    words = [line.split() for line in _read("/proc/meminfo").splitlines()]
    return sum(int(line[1]) * 1024 for line in words if line[0] in ("AnonPages:", "Shmem:"))


def file_system(path: str) -> int:
    """The space in use in a file system."""
    try:
        seen = os.statvfs(path)
    except OSError:
        return 0
    return max(seen.f_blocks - seen.f_bfree, 0) * seen.f_frsize


def nameless(pids: list[int], device: int) -> int:
    """The size of deleted files on a device that are still open or mapped."""
    found: dict[int, int] = {}
    for pid in pids:
        try:
            names = os.listdir(f"/proc/{pid}/fd")[:_MOST_FILES]
        except OSError:
            names = []
        for name in names:
            try:
                seen = os.stat(f"/proc/{pid}/fd/{name}")
            except OSError:
                continue
            if seen.st_nlink == 0 and seen.st_dev == device:
                found[seen.st_ino] = seen.st_blocks * 512
        for line in _read(f"/proc/{pid}/maps").splitlines():
            words = line.split(None, 5)
            if line.endswith(_DELETED) and words[5].startswith(("/workspace/", "/artifacts/")):
                start, end = (int(number, 16) for number in words[0].split("-"))
                found.setdefault(int(words[4]), end - start)
    return sum(found.values())


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
