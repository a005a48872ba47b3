"""Which pages a first run writes to, learnt once, so that each child can have its own copies of them in one go.

After a fork every page that is written to is copied at a page fault, and Python writes a reference count into nearly
everything that it looks at: some three hundred faults in a short life, more than half of its cost. Asking for the same
pages in advance costs a fraction of that.
"""

from __future__ import annotations

import array
import ctypes
import os

from coracle_guest import confine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PRESENT = 1 << 63
_OF_FILE = 1 << 61
_EXCLUSIVE = 1 << 56
_POPULATE_WRITE = 23
_SIGCHLD = 17


def learn(clone: int, rehearse: Callable[[], None]) -> list[tuple[int, int]]:
    """Rehearses in a child and gives the stretches of memory that it had to copy; none where that cannot be told."""
    areas = _writable_areas()
    reader, writer = os.pipe()
    pid = confine.syscall(clone, _SIGCHLD)
    if pid == 0:
        try:
            rehearse()
            os.write(writer, array.array("Q", _own_pages(areas)).tobytes())
        finally:
            os._exit(0)
    os.close(writer)
    pages = array.array("Q")
    with open(reader, "rb") as stream:
        pages.frombytes(stream.read())
    if pid > 0:
        os.waitpid(pid, 0)
    return _stretches(pages)


def copy(stretches: list[tuple[int, int]]) -> None:
    """Gives this process its own copy of them. An older kernel refuses; then the faults come as they come."""
    for address, length in stretches:
        if _madvise(address, length, _POPULATE_WRITE):
            return


_madvise = ctypes.PyDLL(None).madvise
_madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def _writable_areas() -> list[tuple[int, int]]:
    areas = []
    with open("/proc/self/maps") as maps:
        for line in maps:
            fields = line.split(None, 5)
            if fields[1] == "rw-p" and fields[-1].strip() != "[stack]":
                start, end = (int(address, 16) for address in fields[0].split("-"))
                areas.append((start, end))
    return areas


def _own_pages(areas: list[tuple[int, int]]) -> list[int]:
    own = []
    with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
        for start, end in areas:
            entries = array.array("Q", os.pread(pagemap.fileno(), (end - start) // _PAGE * 8, start // _PAGE * 8))
            for index, entry in enumerate(entries):
                if entry & (_PRESENT | _EXCLUSIVE) == _PRESENT | _EXCLUSIVE and not entry & _OF_FILE:
                    own.append(start + index * _PAGE)
    return own


def _stretches(pages: array.array[int]) -> list[tuple[int, int]]:
    stretches: list[tuple[int, int]] = []
    for page in pages:
        if stretches and stretches[-1][0] + stretches[-1][1] == page:
            stretches[-1] = (stretches[-1][0], stretches[-1][1] + _PAGE)
        else:
            stretches.append((page, _PAGE))
    return stretches
