"""Finds the memory of this process that can be shared with all its children through a file.

A fork copies a page table entry for every page of private memory, and the end of a child removes each of them. In a
mapped file, only touched pages have an entry. So everything that the zygote has imported is moved to a memory file, and
the pages that a run needs are touched again.
"""

from __future__ import annotations

import sys

_PAGE = 4096
_PRESENT = 1 << 63
_OF_A_FILE = 1 << 61

# The minimum number of pages of a mapping, and the maximum number of unused pages that do not split one.
_FEWEST = 8
_GAP = 8

# The maximum number of parts, which `native/confine.rs` also knows.
_MOST = 256


def parts() -> bytes:
    """Private memory in use, largest parts first: start, length and protection, as words of eight bytes."""
    found: list[tuple[int, int, int]] = []
    with open("/proc/self/maps", "rb", 0) as maps, open("/proc/self/pagemap", "rb", 0) as pages:
        for line in maps.read().splitlines():
            span, mode, _, _, _, *name = line.split(None, 5)
            if mode not in (b"rw-p", b"r--p") or (name and name[0].startswith((b"[stack", b"[v"))):
                continue
            start, end = (int(number, 16) for number in span.split(b"-"))
            pages.seek(start // _PAGE * 8)
            entries = memoryview(pages.read((end - start) // _PAGE * 8)).cast("Q")
            protection = 3 if mode == b"rw-p" else 1
            found += ((start + at * _PAGE, count * _PAGE, protection) for at, count in _runs(entries))
    found.sort(key=lambda part: -part[1])
    words = [word for part in found[:_MOST] for word in part]
    return b"".join(word.to_bytes(8, sys.byteorder) for word in words)


def _runs(entries: memoryview) -> list[tuple[int, int]]:
    """The start and number of our own pages in one mapping."""
    runs: list[tuple[int, int]] = []
    first = last = -1
    for number, entry in enumerate(entries):
        if not entry & _PRESENT or entry & _OF_A_FILE:
            continue
        if first < 0:
            first = number
        elif number - last > _GAP:
            runs.append((first, last - first + 1))
            first = number
        last = number
    if first >= 0:
        runs.append((first, last - first + 1))
    return [run for run in runs if run[1] >= _FEWEST]
