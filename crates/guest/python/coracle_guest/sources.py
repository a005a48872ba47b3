"""The source of each run, for tracebacks: ours, or those of `traceback`, `warnings` and `inspect` in user code.

These read `linecache`, which is slow to import on some versions and not needed by successful runs. So the lines are
added to its cache at once if it is loaded, and otherwise when it is imported.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

# The numbers of sources that are kept: of runs without definitions, and of others. A session may have thousands of
# runs.
_PASSING = 16
_LASTING = 256

_passing: dict[str, str] = {}
_lasting: dict[str, str] = {}


def filename(run: int) -> str:
    """The file name of the n-th run of this process in tracebacks."""
    return "<code>" if run == 1 else f"<code {run}>"


def is_code(name: str) -> bool:
    """Whether a file name in a traceback is the code of a run."""
    return name == "<code>" or (name.startswith("<code ") and name.endswith(">"))


def register(name: str, source: str) -> None:
    """Keep the source of one run for some time."""
    _keep(_passing, _PASSING, name, source)
    linecache = sys.modules.get("linecache")
    if linecache is not None:
        _publish(linecache, {name: source})


def last(name: str) -> None:
    """Keep the source of a run for longer, because later runs may call its definitions."""
    _keep(_lasting, _LASTING, name, _passing.pop(name))


def _keep(kept: dict[str, str], most: int, name: str, source: str) -> None:
    kept[name] = source
    while len(kept) > most:
        _drop(kept, next(iter(kept)))


def _drop(kept: dict[str, str], name: str) -> None:
    del kept[name]
    linecache = sys.modules.get("linecache")
    if linecache is not None:
        try:
            linecache.cache.pop(name, None)
        except Exception:
            # User code may have replaced it.
            pass


def forget() -> None:
    """Forget all runs."""
    for kept in (_passing, _lasting):
        for name in list(kept):
            _drop(kept, name)


def show_all() -> None:
    """Make sure that tracebacks show lines now, even if user code has emptied the cache."""
    import linecache

    _publish(linecache, {**_lasting, **_passing})


def watch_imports() -> None:
    """Fill the cache of `linecache` as soon as it is imported."""
    if "linecache" not in sys.modules and _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def _publish(linecache: ModuleType, kept: dict[str, str]) -> None:
    try:
        for name, source in kept.items():
            # Without a modification time, `checkcache` leaves the entry alone.
            lines = [line + "\n" for line in source.split("\n")]
            linecache.cache[name] = (len(source), None, lines, name)
    except Exception:
        # User code may have replaced it. A traceback without lines is still useful.
        pass


class _Finder:
    """The first entry of `sys.meta_path` until `linecache` is imported. It only answers for that name."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "linecache":
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader:
    """The loader of `linecache`, with an additional step at its end."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # From now on the module is like any other.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _publish(module, {**_lasting, **_passing})


_finder = _Finder()
