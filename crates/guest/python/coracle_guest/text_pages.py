"""Lets children find the program's text already mapped.

A fork copies page tables only of mappings that have pages of their own; text has none, so each child would meet a
page fault for nearly every piece of the interpreter that it runs, about two hundred in a short life. One private page
in such a mapping makes the kernel copy the table of all of it. So one byte of each is written over with itself.
"""

from __future__ import annotations

import ctypes

_READ, _WRITE, _EXECUTE = 1, 2, 4


def keep_mapped() -> None:
    """Give every read-only mapping of a file in this process one private page. What cannot be had is left as it is."""
    mprotect = ctypes.CDLL(None).mprotect
    mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with open("/proc/self/maps") as maps:
        lines = maps.read().splitlines()
    for line in lines:
        fields = line.split(None, 5)
        if len(fields) < 6 or not fields[5].startswith("/") or fields[1][0] != "r" or fields[1][1:] not in ("-xp", "--p"):
            continue
        start, end = (int(address, 16) for address in fields[0].split("-"))
        before = _READ | (_EXECUTE if fields[1][2] == "x" else 0)
        # The whole of it, so that it stays one mapping.
        if mprotect(start, end - start, before | _WRITE) == 0:
            byte = ctypes.c_ubyte.from_address(start)
            byte.value = byte.value
            mprotect(start, end - start, before)
